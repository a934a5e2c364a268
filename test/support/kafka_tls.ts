import type { Identity } from "../../keyvault/tls/authority.ts";

/** How a broker shows a certificate, and which ones of clients it takes. */
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
