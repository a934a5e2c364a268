import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { createPendingResponses } from "../../../src/http/server/connection_limits.ts";
import { collectGarbage } from "../../support/garbage.ts";

const TURN = { serve() {}, refuse() {} };
const openSocket = () => new EventEmitter() as unknown as Socket;
const requestOn = (socket: Socket) => ({ socket }) as IncomingMessage;
const openResponse = () => new EventEmitter() as unknown as ServerResponse;

test("createPendingResponses lists responses by connection until they end", () => {
  const pending = createPendingResponses(2);
  const [one, other] = [openSocket(), openSocket()];
  const [first, second, third] = [openResponse(), openResponse(), openResponse()];
  pending.take(requestOn(one), first, TURN);
  pending.take(requestOn(one), second, TURN);
  pending.take(requestOn(other), third, TURN);
  expect(pending.open(one)).toEqual([first, second]);
  expect(pending.open()).toEqual([first, second, third]);
  first.emit("close");
  expect(pending.open(one)).toEqual([second]);
  expect(pending.open(openSocket())).toEqual([]);
});

test("createPendingResponses releases a closed connection", async () => {
  const pending = createPendingResponses(1);
  const closed = new WeakRef(useAndClose());
  // A WeakRef keeps its target until the current turn of the event loop ends.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(closed.deref()).toBeUndefined();
  expect(pending.open()).toEqual([]);

  function useAndClose(): Socket {
    const socket = openSocket();
    const response = openResponse();
    pending.take(requestOn(socket), response, TURN);
    response.emit("close");
    socket.emit("close");
    return socket;
  }
});
