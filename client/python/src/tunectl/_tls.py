# SPDX-License-Identifier: Apache-2.0
"""Why a TLS connection does not come about. gRPC says little more than that it failed; this tries the handshake
once more, by itself, and says why, as client/connect/tls_probe.cc does.
"""
from __future__ import annotations

import socket
import ssl
from typing import Optional

_CA, _CERTIFICATE, _KEY = "TUNE_TLS_CA", "TUNE_TLS_CERT", "TUNE_TLS_KEY"


def check_pair(certificate: object, key: object) -> str:
    """What is wrong where one of the two is given; empty: nothing."""
    if key and not certificate:
        return f"{_KEY} is given without its certificate: {_CERTIFICATE}"
    if certificate and not key:
        return f"{_CERTIFICATE} is given without its key: {_KEY}"
    return ""


def why_not(address: str, ca: str, certificate: str, key: str, seconds: float) -> str:
    """A sentence; empty: nothing is wrong with TLS to "host:port". The files' paths, empty: not given."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError):
        return f"{_CA} names a file without a certificate in PEM: {ca}"
    context.set_alpn_protocols(["h2"])
    if certificate:
        try:
            context.load_cert_chain(certificate, key or None, password="")
        except (OSError, ssl.SSLError) as error:
            return f"{_CERTIFICATE} and {_KEY} are no certificate and its key in PEM: {_reason(error)}"
    try:
        with socket.create_connection((host, int(port)), timeout=seconds) as plain, \
                context.wrap_socket(plain, server_hostname=host) as secure:
            # A daemon that does not take our certificate says so only now, or hangs up, as gRPC's do. Else it greets.
            hung_up = not secure.recv(1)
    except ssl.SSLCertVerificationError as error:
        return _why_not_trusted(error, bool(ca))
    except ssl.SSLError as error:
        if "WRONG_VERSION_NUMBER" in str(error):
            return "what listens there does not speak TLS"
        if "ALERT" in (error.reason or ""):
            return f"the daemon does not take this client's certificate ({_CERTIFICATE}): {_reason(error)}"
        return f"the TLS handshake fails: {_reason(error)}"
    except ConnectionResetError:
        hung_up = True
    except (OSError, ValueError):
        return ""  # nobody is there, which gRPC tells
    if hung_up and certificate:
        return (f"the daemon does not take this client's certificate ({_CERTIFICATE}): the authority that the daemon was given "
                f"(tunerd --tls-ca) has not signed it, or it is not valid now")
    return ""


def _why_not_trusted(error: ssl.SSLCertVerificationError, has_ca: bool) -> str:
    said: Optional[str] = getattr(error, "verify_message", None)
    said = (said or str(error)).rstrip(".")
    if "expired" in said:
        return f"the daemon's certificate has ended ({said}); its operator renews it"
    if "not valid for" in said or "mismatch" in said:
        return f"the daemon's certificate is for another host: {said}"
    if "issuer" in said or "self" in said or "signature" in said:
        trusted = f"the file of {_CA} does not have" if has_ca else f"this system does not trust; name it with {_CA}"
        return f"the daemon's certificate is of an authority that {trusted} ({said})"
    return f"the daemon's certificate is not taken: {said}"


def _reason(error: Exception) -> str:
    reason: Optional[str] = getattr(error, "reason", None)
    return reason.lower().replace("_", " ") if reason else str(error)
