// SPDX-License-Identifier: Apache-2.0
#include "client/connect/credentials.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/secret_file.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

constexpr size_t kTokenBytesMax = 4096;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string Given(const std::string& value, const char* variable) {
  return value.empty() ? Variable(variable) : value;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "'"));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The user's own file, where there is one.
std::string DefaultTokenFile() {
  std::string folder = Variable("XDG_CONFIG_HOME");
  if (folder.empty() && Variable("HOME").empty()) return "";
  if (folder.empty()) folder = Variable("HOME") + "/.config";
  const std::string path = folder + "/tunectl/token";
  return access(path.c_str(), F_OK) == 0 ? path : "";
}

// Empty: there is none.
absl::StatusOr<std::string> TokenOf(const TlsFiles& tls) {
  std::string path = Given(tls.token_file, "TUNE_TOKEN_FILE");
  std::string token = path.empty() ? Variable("TUNE_TOKEN") : "";
  const bool has_certificate = !Given(tls.certificate, "TUNE_TLS_CERT").empty();
  if (path.empty() && token.empty() && !has_certificate) path = DefaultTokenFile();
  std::string source = "TUNE_TOKEN";
  if (!path.empty()) {
    ASSIGN_OR_RETURN(token, ReadSecret(path));
    source = absl::StrCat("'", path, "'");
  }
  token = std::string(absl::StripAsciiWhitespace(token));
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (printable && token.size() <= kTokenBytesMax && (path.empty() || !token.empty())) {
    return token;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(source, " is no token: `tunectl token create` prints one, of a line"));
}

}  // namespace

absl::StatusOr<Credentials> CredentialsOf(const TlsFiles& tls) {
  Credentials credentials;
  TlsTexts& texts = credentials.texts;
  using Read = absl::StatusOr<std::string> (*)(const std::string&);
  for (const auto& [path, read, text] :
       {std::tuple(Given(tls.ca, "TUNE_TLS_CA"), Read(ReadFile), &texts.ca),
        std::tuple(Given(tls.certificate, "TUNE_TLS_CERT"), Read(ReadFile), &texts.certificate),
        std::tuple(Given(tls.key, "TUNE_TLS_KEY"), Read(ReadSecret), &texts.key)}) {
    if (path.empty()) continue;
    ASSIGN_OR_RETURN(*text, read(path));
    if (text->empty()) return absl::InvalidArgumentError(absl::StrCat("'", path, "' is empty"));
  }
  RETURN_IF_ERROR(CheckTls(texts));
  ASSIGN_OR_RETURN(std::string token, TokenOf(tls));
  credentials.channel = grpc::SslCredentials({.pem_root_certs = texts.ca,
                                              .pem_private_key = texts.key,
                                              .pem_cert_chain = texts.certificate});
  if (!token.empty()) {
    credentials.channel =
        grpc::CompositeChannelCredentials(credentials.channel, grpc::AccessTokenCredentials(token));
  }
  return credentials;
}

}  // namespace tune::client
