import type { Identity } from "../../keyvault/tls/authority.ts";

/** Returns a broker's TLS settings. `authority` issued the client certificates that it accepts. */
export function tlsSettings(server: Identity, authority: Identity, clients: "none" | "required") {
  return {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.certificate.chain": server.certificate.trim(),
    "ssl.keystore.key": server.privateKey.trim(),
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": authority.certificate.trim(),
    "ssl.client.auth": clients,
  };
}
