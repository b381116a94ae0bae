// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/session_tickets.h"

#include <openssl/bio.h>
#include <openssl/conf.h>
#include <openssl/crypto.h>
#include <openssl/err.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

using Config = std::unique_ptr<CONF, decltype(&NCONF_free)>;

// Null: it does not parse, or there is no such file.
Config Parse(const std::string& text) {
  Config config(NCONF_new(nullptr), NCONF_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> bytes(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  if (NCONF_load_bio(config.get(), bytes.get(), nullptr) != 1) return Config(nullptr, NCONF_free);
  return config;
}

std::string Find(const Config& config, const char* section, const char* name,
                 const char* otherwise) {
  const char* const found =
      config == nullptr ? nullptr : NCONF_get_string(config.get(), section, name);
  return found == nullptr ? otherwise : found;
}

}  // namespace

absl::Status SendNoSessionTickets() {
  OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr);
  OPENSSL_load_builtin_modules();
  ERR_set_mark();  // a host without a configuration is none of our errors
  const std::unique_ptr<char, void (*)(char*)> file(CONF_get1_default_config_file(),
                                                    [](char* text) { OPENSSL_free(text); });
  std::string host = file == nullptr ? "" : absl::StrCat(".include = ", file.get(), "\n");
  const Config there = Parse(host);
  if (there == nullptr) host.clear();
  // Adds one line to the host's TLS configuration. A section that is named again is continued.
  const std::string loaded = Find(there, nullptr, "openssl_conf", "tune_host");
  const std::string names = Find(there, loaded.c_str(), "ssl_conf", "tune_names");
  const std::string defaults = Find(there, names.c_str(), "system_default", "tune_defaults");
  const Config ours = Parse(absl::StrCat(
      "tune = tune_modules\n", host, "[tune_modules]\nssl_conf = ", names, "\n[", names,
      "]\nsystem_default = ", defaults, "\n[", defaults, "]\nNumTickets = 0\n"));
  const bool done = ours != nullptr && CONF_modules_load(ours.get(), "tune", 0) == 1;
  ERR_pop_to_mark();
  if (done) return absl::OkStatus();
  return absl::UnavailableError("OpenSSL does not take a line about session tickets");
}

}  // namespace tune::server
