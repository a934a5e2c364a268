import "reflect-metadata";
import type { TLSSocket } from "node:tls";
import * as x509 from "@peculiar/x509";
import { type Caller, REMOTE_ROLES, type RemoteRole } from "../audit/record.ts";
import type { Trust } from "../tls/trust.ts";

/** The client of a connection, and the validity period of its certificate. */
export type Peer = { caller: Caller & { role: RemoteRole }; notBefore: Date; notAfter: Date };

const ROLE_URI = new RegExp(`^deputize://role/(${REMOTE_ROLES.join("|")})/([A-Za-z0-9._-]{1,64})$`);

/**
 * Returns a function that checks whether the client's certificate is still accepted, and caches the result
 * for each connection until the TLS files change.
 */
export function createPeerCheck(
  trust: Pick<Trust, "accepts" | "generation">,
): (socket: TLSSocket) => boolean {
  const judged = new WeakMap<TLSSocket, { generation: number; accepted: boolean }>();
  return (socket) => {
    const generation = trust.generation();
    const known = judged.get(socket);
    if (known?.generation === generation) return known.accepted;
    const certificate = socket.authorized ? socket.getPeerX509Certificate() : undefined;
    const accepted = certificate !== undefined && trust.accepts(certificate);
    judged.set(socket, { generation, accepted });
    return accepted;
  };
}

/**
 * Returns a function that reads the role from a certificate that the TLS layer has verified. Caches the
 * result for each connection. A certificate grants a role only if it has exactly one URI among its
 * alternative names, of the form `deputize://role/<role>/<name>`.
 */
export function createPeerReader(): (socket: TLSSocket) => Peer | undefined {
  const known = new WeakMap<TLSSocket, Peer>();
  return (socket) => {
    const remembered = known.get(socket);
    if (remembered !== undefined) return remembered;
    const certificate = socket.authorized ? socket.getPeerX509Certificate() : undefined;
    const peer = certificate === undefined ? undefined : peerOf(certificate.raw);
    if (peer !== undefined) known.set(socket, peer);
    return peer;
  };
}

/** Returns whether a client's certificate is valid at `now`. A connection may outlast its certificate. */
export function isValidAt({ notBefore, notAfter }: Peer, now: Date): boolean {
  return notBefore <= now && now <= notAfter;
}

function peerOf(der: Buffer): Peer | undefined {
  const certificate = new x509.X509Certificate(der);
  const names = certificate.getExtension(x509.SubjectAlternativeNameExtension)?.names.toJSON() ?? [];
  const uris = names.filter(({ type }) => type === "url");
  const [, role, name] = ROLE_URI.exec(uris.length === 1 ? (uris[0]?.value ?? "") : "") ?? [];
  if (role === undefined || name === undefined) return undefined;
  return {
    caller: { role: role as RemoteRole, name, certificate: der.toString("base64") },
    notBefore: certificate.notBefore,
    notAfter: certificate.notAfter,
  };
}
