import { EventEmitter } from "node:events";
import type { Server } from "node:https";
import type { Socket } from "node:net";
import { pino } from "pino";
import { expect, test } from "vitest";
import { limitConnections } from "../../../keyvault/http/handshakes.ts";
import type { Logger } from "../../../keyvault/log.ts";
import { SILENT } from "../fixture.ts";

/* The sockets are fakes, because no machine has all these addresses. */

const MOST = 8;
const SHARE = MOST / 4;

/** Starts one handshake after the other and finishes none. Returns for each whether it may continue. */
function begunFrom(addresses: readonly string[], log: Logger = SILENT): boolean[] {
  const server = new EventEmitter();
  limitConnections(server as Server, MOST, log, () => {});
  return addresses.map((remoteAddress, index) => {
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress,
      remotePort: index + 1,
      destroyed: false,
    });
    Object.assign(socket, {
      destroy: () => {
        socket.destroyed = true;
      },
    });
    server.emit("connection", socket as unknown as Socket);
    return !socket.destroyed;
  });
}

test.each([
  ["the addresses of an IPv6 /64", ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3"]],
  [
    "an IPv4 address and the same address written as IPv6",
    ["192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.1"],
  ],
  ["link-local addresses of different interfaces", ["fe80::1%eth0", "fe80::2%eth1", "fe80::3"]],
])("%s count as one client", (_, addresses) => {
  expect(addresses).toHaveLength(SHARE + 1);
  expect(begunFrom(addresses)).toEqual([true, true, false]);
});

test.each([
  ["two IPv6 /64", ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"]],
  ["two IPv4 addresses written as IPv6", ["::ffff:192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"]],
])("%s count as two clients", (_, addresses) => {
  expect(begunFrom(addresses)).toEqual([true, true, true]);
});

test("dropped handshakes are logged at debug level only, because anybody can cause any number of them", () => {
  const lines: { level: number; code: string; address: string }[] = [];
  const log = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line)) });
  const hosts = Array.from({ length: MOST + 1 }, (_, index) => `192.0.2.${index + 1}`);
  expect(begunFrom([...hosts, "192.0.2.9", "192.0.2.9"], log)).toContain(false);
  expect(lines.length).toBeGreaterThan(1);
  expect(new Set(lines.map(({ level }) => level))).toEqual(new Set([20]));
  expect(lines[0]).toMatchObject({ event: "handshake_refused", code: "gave_way", address: "192.0.2.1" });
});
