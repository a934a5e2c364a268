import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { createUnanswered } from "../../../src/http/exchange/unanswered.ts";
import { collectGarbage } from "../../support/garbage.ts";

const TURN = { serve() {}, refuse() {} };
const openSocket = () => new EventEmitter() as unknown as Socket;
const requestOn = (socket: Socket) => ({ socket }) as IncomingMessage;
const openResponse = () => new EventEmitter() as unknown as ServerResponse;

test("responses are open until they are over, each on its connection", () => {
  const unanswered = createUnanswered(2);
  const [one, other] = [openSocket(), openSocket()];
  const [first, second, third] = [openResponse(), openResponse(), openResponse()];
  unanswered.take(requestOn(one), first, TURN);
  unanswered.take(requestOn(one), second, TURN);
  unanswered.take(requestOn(other), third, TURN);
  expect(unanswered.open(one)).toEqual([first, second]);
  expect(unanswered.open()).toEqual([first, second, third]);
  first.emit("close");
  expect(unanswered.open(one)).toEqual([second]);
  expect(unanswered.open(openSocket())).toEqual([]);
});

test("a connection that is closed is held no longer", async () => {
  const unanswered = createUnanswered(1);
  const closed = new WeakRef(useAndClose());
  // What a WeakRef was just made of lives until the turn is over.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(closed.deref()).toBeUndefined();
  expect(unanswered.open()).toEqual([]);

  function useAndClose(): Socket {
    const socket = openSocket();
    const response = openResponse();
    unanswered.take(requestOn(socket), response, TURN);
    response.emit("close");
    socket.emit("close");
    return socket;
  }
});
