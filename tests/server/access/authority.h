// SPDX-License-Identifier: Apache-2.0
// An authority that signs certificates, by the program openssl.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"

namespace tune::server {

struct KeyPair {
  std::string key;
  std::string certificate;
};

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class Authority {
 public:
  explicit Authority(const std::string& folder) : folder_(folder) {
    const KeyPair own = Pair("authority");
    Run(absl::StrCat("openssl req -x509 ", kKey, " -days 2 -subj /CN=authority -keyout ", own.key,
                     " -out ", own.certificate));
  }

  std::string file() const { return Pair("authority").certificate; }

  // Files "<name>.key", "<name>.pem", of a client or of the daemon at 127.0.0.1.
  KeyPair Sign(const std::string& name, int days = 2) const {
    const KeyPair own = Pair("authority");
    const KeyPair made = Pair(name);
    Run(absl::StrCat("openssl req -x509 ", kKey, " -days ", days, " -subj /CN=", name,
                     " -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE -CA ",
                     own.certificate, " -CAkey ", own.key, " -keyout ", made.key, " -out ",
                     made.certificate));
    return made;
  }

 private:
  static constexpr char kKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

  KeyPair Pair(const std::string& name) const {
    return {absl::StrCat(folder_, "/", name, ".key"), absl::StrCat(folder_, "/", name, ".pem")};
  }
  static void Run(const std::string& command) {
    EXPECT_EQ(system((command + " 2>/dev/null").c_str()), 0) << command;
  }

  const std::string folder_;
};

// A client by TLS, with what is given of a certificate and a token, on a connection of its own:
// else channels to the same place share one.
inline std::shared_ptr<grpc::Channel> ConnectByTls(const std::string& address,
                                                   const std::string& authority_file,
                                                   const KeyPair& pair = {},
                                                   const std::string& token = "") {
  grpc::SslCredentialsOptions tls{.pem_root_certs = TextOf(authority_file)};
  if (!pair.key.empty()) {
    tls.pem_private_key = TextOf(pair.key);
    tls.pem_cert_chain = TextOf(pair.certificate);
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::SslCredentials(tls);
  if (!token.empty()) {
    credentials =
        grpc::CompositeChannelCredentials(credentials, grpc::AccessTokenCredentials(token));
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("ipv4:" + address, credentials, arguments);
}

}  // namespace tune::server
