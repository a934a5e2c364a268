import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { Logger } from "../log.ts";

/**
 * Drops connections from an address that has `most` handshakes under way: whoever begins them and ends none, for which nobody needs a
 * certificate, would otherwise take all connections that there may be.
 */
export function limitHandshakes(server: Server, most: number, log: Logger): void {
  const underWay = new Map<string, Set<number>>();

  function end(address: string, port: number): void {
    const ports = underWay.get(address);
    ports?.delete(port);
    if (ports?.size === 0) underWay.delete(address);
  }

  server.prependListener("connection", (socket: Socket) => {
    const { remoteAddress: address, remotePort: port } = socket;
    if (address === undefined || port === undefined || socket.destroyed) return;
    const ports = underWay.get(address) ?? new Set();
    if (ports.size >= most) {
      log.debug({ event: "handshake_refused", code: "too_many_at_once", address });
      socket.destroy();
      return;
    }
    underWay.set(address, ports.add(port));
    socket.once("close", () => end(address, port));
  });
  server.prependListener("secureConnection", ({ remoteAddress = "", remotePort = 0 }) =>
    end(remoteAddress, remotePort),
  );
}
