import { readSync, writeSync } from "node:fs";
import { DamagedBox } from "./fault.ts";
import { createFrameReader, encodeFrame } from "./frames.ts";
import type {
  ReplyFrame,
  RequestFrame,
  TokenAnswers,
  TokenFailure,
  TokenInfo,
  TokenPlace,
  TokenRequest,
} from "./messages.ts";
import { findKeys } from "./objects.ts";
import { createOperations, type TokenOperations } from "./operations.ts";
import { provision } from "./provision.ts";
import { describe, openSession } from "./session.ts";

/** The descriptor of the pipe to the parent. */
const PIPE = 3;

/** A token that was opened, and what it told of itself. */
type Opened = { operations: TokenOperations; info: TokenInfo };

/**
 * The only program that loads PKCS#11: one thread, one request after another, blocking reads from the parent's pipe. It ends when
 * the pipe does, so it cannot outlive its parent, and after any fault of the token, so that no call meets a token in doubt.
 */
function serve(): void {
  const frames = createFrameReader();
  const chunk = Buffer.alloc(65_536);
  let opened: Opened | undefined;
  for (;;) {
    const length = readSync(PIPE, chunk);
    if (length === 0) return;
    for (const frame of frames.push(chunk.subarray(0, length)) as RequestFrame[]) {
      try {
        if (frame.request.kind === "open") opened = open(frame.request);
        const given = answer(frame.request, opened);
        reply({ id: frame.id, answer: given });
        erase(frame.request, given);
      } catch (error) {
        const failure = classify(error);
        reply({ id: frame.id, failure });
        if (failure.reason === "token") return;
      }
    }
    chunk.fill(0);
  }
}

function open(place: TokenPlace): Opened {
  const session = openSession(place);
  const keys = findKeys(session);
  const operations = createOperations(session, keys);
  operations.health();
  const { manufacturerID, model, serialNumber } = session.library.C_GetTokenInfo(session.slot);
  const info = {
    manufacturer: manufacturerID.trim(),
    model: model.trim(),
    serial: serialNumber.trim(),
    keks: [...keys.keks.keys()],
  };
  return { operations, info };
}

function answer(request: TokenRequest, opened: Opened | undefined): TokenAnswers[TokenRequest["kind"]] {
  if (request.kind === "provision") return { created: provision(request, request.initialise) };
  if (opened === undefined) throw new Error("The token is not open");
  const { operations, info } = opened;
  switch (request.kind) {
    case "open":
      return info;
    case "wrap":
      return operations.wrap(request.plain, request.context);
    case "unwrap":
      return operations.unwrap(request.wrapped, request.context);
    case "chain":
      return operations.chain(request.previous, request.texts);
    case "authenticate":
      return operations.authenticate(request.texts);
    case "rewrap":
      return operations.rewrap(request.boxes);
    case "rotate":
      info.keks = operations.rotate();
      return { keks: info.keks };
    case "retire":
      info.keks = operations.retire(request.kek);
      return { keks: info.keks };
    case "health":
      operations.health();
      return { keks: info.keks };
  }
}

/** Overwrites what was wrapped or unwrapped: nothing of it stays in this process. */
function erase(request: TokenRequest, given: unknown): void {
  if (request.kind === "wrap") request.plain.fill(0);
  if (request.kind === "unwrap" && given instanceof Uint8Array) given.fill(0);
}

function classify(error: unknown): TokenFailure {
  return { reason: error instanceof DamagedBox ? "damaged" : "token", message: describe(error) };
}

function reply(frame: ReplyFrame): void {
  const bytes = encodeFrame(frame);
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(PIPE, bytes, sent);
  bytes.fill(0);
}

serve();
