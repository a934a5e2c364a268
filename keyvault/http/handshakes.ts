import type { Server } from "node:https";
import { isIPv6, type Socket } from "node:net";
import ipaddr from "ipaddr.js";
import type { Logger } from "../log.ts";
import { createRates } from "../rates.ts";

/** Maximum share of all connections that one network may use for unfinished handshakes. */
const HANDSHAKE_SHARE = 0.25;
/** Maximum share of connections for one certificate. If it is stolen, the others remain for an admin. */
const CERTIFICATE_SHARE = 0.75;
/** Maximum log lines per minute for each reason why handshakes fail. */
const LINES_PER_MINUTE = 60;

/**
 * Limits the server to `most` open connections. Handshakes of one network use at most a quarter of them, and
 * at that limit the newest handshake replaces the oldest. So a client without a certificate cannot keep
 * others out by handshakes that it never finishes. A client with a certificate cannot either, because one
 * certificate may have at most three quarters of the connections.
 */
export function limitConnections(server: Server, most: number, log: Logger, logRefused: RefusedLog): void {
  limitCertificates(server, Math.max(1, Math.floor(most * CERTIFICATE_SHARE)), logRefused);
  const share = Math.max(1, Math.floor(most * HANDSHAKE_SHARE));
  const open = new Set<Socket>();
  /** Sockets with an unfinished handshake, oldest first, by remote address and port. */
  const underWay = new Map<string, Socket>();
  const networks = new Map<string, number>();

  function endHandshake({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): void {
    if (!underWay.delete(`${remoteAddress} ${remotePort}`)) return;
    const network = networkOf(remoteAddress);
    const count = (networks.get(network) ?? 0) - 1;
    if (count > 0) {
      networks.set(network, count);
    } else {
      networks.delete(network);
    }
  }

  function drop(socket: Socket, code: string): void {
    log.debug({ event: "handshake_refused", code, address: socket.remoteAddress });
    socket.destroy();
  }

  server.prependListener("connection", (socket: Socket) => {
    const { remoteAddress, remotePort } = socket;
    if (remoteAddress === undefined || socket.destroyed) return;
    const network = networkOf(remoteAddress);
    const count = networks.get(network) ?? 0;
    if (count >= share) return drop(socket, "too_many_at_once");
    if (open.size >= most) {
      const [oldest] = underWay.values();
      if (oldest === undefined) return drop(socket, "too_many_connections");
      open.delete(oldest);
      endHandshake(oldest);
      drop(oldest, "gave_way");
    }
    open.add(socket);
    underWay.set(`${remoteAddress} ${remotePort}`, socket);
    networks.set(network, count + 1);
    socket.once("close", () => {
      if (open.delete(socket)) endHandshake({ remoteAddress, remotePort });
    });
  });
  server.prependListener("secureConnection", endHandshake);
}

function limitCertificates(server: Server, share: number, logRefused: RefusedLog): void {
  const counts = new Map<string, number>();
  server.prependListener("secureConnection", (socket) => {
    const name = socket.getPeerX509Certificate()?.fingerprint256 ?? "";
    const count = counts.get(name) ?? 0;
    if (count >= share) {
      logRefused("too_many_of_certificate", socket.remoteAddress);
      socket.destroy();
      return;
    }
    counts.set(name, count + 1);
    socket.once("close", () => {
      const left = (counts.get(name) ?? 0) - 1;
      if (left > 0) {
        counts.set(name, left);
      } else {
        counts.delete(name);
      }
    });
  });
}

/** Limits each network to `rate` handshakes per second. Drops further connections before their handshake. */
export function limitHandshakeRate(server: Server, rate: number, log: Logger): void {
  const rates = createRates(() => performance.now());
  server.prependListener("connection", (socket: Socket) => {
    if (rates.take([{ name: networkOf(socket.remoteAddress), rate }]) === undefined) return;
    log.debug({ event: "handshake_refused", code: "rate_limited", address: socket.remoteAddress });
    socket.destroy();
  });
}

/**
 * Returns a client's IPv4 address, or the /64 of its IPv6 address, because one client may own the whole /64.
 */
function networkOf(address = ""): string {
  if (!isIPv6(address)) return address;
  const read = ipaddr.process(address.replace(/%.*$/, ""));
  return read.kind() === "ipv6" ? read.toByteArray().slice(0, 8).join(".") : read.toString();
}

/** Logs a failed or refused handshake. */
export type RefusedLog = (code: string | undefined, address: string | undefined) => void;

/**
 * Returns a function that logs refused handshakes, with at most 60 lines per minute and reason, because
 * anybody can cause them. The next line reports how many were omitted.
 */
export function createRefusedLog(log: Pick<Logger, "warn">, elapsed: () => number): RefusedLog {
  const rates = createRates(elapsed);
  const leftOut = new Map<string, number>();
  return (code = "unknown", address) => {
    const before = leftOut.get(code) ?? 0;
    if (rates.take([{ name: code, rate: LINES_PER_MINUTE / 60, burst: LINES_PER_MINUTE }]) !== undefined) {
      leftOut.set(code, before + 1);
      return;
    }
    leftOut.delete(code);
    log.warn({ event: "handshake_refused", code, address, ...(before > 0 && { left_out: before }) });
  };
}
