import { readSync, writeSync } from "node:fs";
import { reasonOf } from "../../errors.ts";
import { applyMask, createFrameReader, encodeFrame } from "../frames.ts";
import {
  DamagedBox,
  type OpenedToken,
  PinWithheld,
  type ReplyFrame,
  type RequestFrame,
  StaleOffer,
  type TokenAnswers,
  type TokenPlace,
  type TokenRefusal,
  type TokenRequest,
  WrongPin,
} from "../messages.ts";
import { createOffer, decryptPin, type PinOffer } from "../pin_box.ts";
import { createHeadNote, type HeadNote } from "./head_note.ts";
import { type GivenPin, readPinFlags } from "./login.ts";
import { createOperations, type TokenOperations } from "./operations.ts";
import { openSession, type Session } from "./session.ts";
import { findKeys, provision } from "./token_keys.ts";

/** File descriptor of the pipe to the parent. */
const PIPE = 3;

type Opened = { session: Session; operations: TokenOperations; headNote: HeadNote; info: OpenedToken };

/**
 * Runs the only program that loads PKCS#11: one thread, one request after another, blocking reads from the
 * parent's pipe. It exits when the pipe closes, so it cannot outlive its parent. It also exits after any
 * fault of the token, so that no call uses an unreliable token. For a sealed token it offers a one-time key,
 * waits for the encrypted PIN and allows one attempt. After a wrong PIN it exits too, so that its one-time
 * key and everything that it received leave memory.
 */
function serve(): void {
  const frames = createFrameReader();
  const chunk = Buffer.alloc(65_536);
  const handleFrame = createRequestHandler();
  for (;;) {
    const length = readSync(PIPE, chunk);
    if (length === 0) return;
    for (const frame of frames.push(chunk.subarray(0, length)) as RequestFrame[]) {
      if (handleFrame(frame) === "ends") return;
    }
    chunk.fill(0);
  }
}

/**
 * Returns a handler of requests. The handler returns `ends` if this process cannot be used after the request.
 */
function createRequestHandler(): (frame: RequestFrame) => "ends" | undefined {
  const offer = createOffer();
  let opened: Opened | undefined;

  function handle(request: TokenRequest): TokenAnswers[TokenRequest["kind"]] {
    if (request.kind === "offer") return { publicKey: offer.publicKey };
    if (request.kind === "open") opened = open(request);
    if (request.kind === "unseal") opened = unseal(request, offer);
    return answer(request, opened);
  }

  return ({ id, request }) => {
    try {
      const result = handle(request);
      reply({ id, answer: result });
      erase(request, result);
      return undefined;
    } catch (error) {
      const failure = classify(error);
      reply({ id, failure });
      return failure.reason === "damaged" ? undefined : "ends";
    }
  };
}

function unseal(
  { box, finalTry, ...place }: Extract<TokenRequest, { kind: "unseal" }>,
  offer: PinOffer,
): Opened {
  const pin = decryptPin(offer, box);
  if (pin === undefined) throw new StaleOffer();
  try {
    return open(place, { pin: pin.toString("utf8"), finalTry });
  } finally {
    pin.fill(0);
  }
}

function open(place: TokenPlace, given?: GivenPin): Opened {
  const session = openSession(place, given);
  const keys = findKeys(session);
  const operations = createOperations(session, keys);
  operations.health();
  const { manufacturerID, model, serialNumber } = session.library.C_GetTokenInfo(session.slot);
  const info = {
    manufacturer: manufacturerID.trim(),
    model: model.trim(),
    serial: serialNumber.trim(),
    keks: [...keys.keks.keys()],
    pin: readPinFlags(session, []),
  };
  return { session, operations, headNote: createHeadNote(session), info };
}

function answer(
  request: Exclude<TokenRequest, { kind: "offer" }>,
  opened: Opened | undefined,
): TokenAnswers[TokenRequest["kind"]] {
  if (request.kind === "provision") return { created: provision(request, request.initialize) };
  if (opened === undefined) throw new Error("The token is not open");
  const { session, operations, headNote, info } = opened;
  switch (request.kind) {
    case "open":
    case "unseal":
      return info;
    case "wrap":
      return operations.wrap(request.plain, request.context);
    case "unwrap":
      return applyMask(operations.unwrap(request.wrapped, request.context), request.mask);
    case "chain":
      return operations.chain(request.previous, request.texts);
    case "authenticate":
      return operations.authenticate(request.texts);
    case "rewrap":
      return operations.rewrap(request.boxes);
    case "find_versions":
      return operations.findVersions(request.boxes);
    case "rotate":
      info.keks = operations.rotate();
      return { keks: info.keks };
    case "retire":
      info.keks = operations.retire(request.kek);
      return { keks: info.keks };
    case "noted_head":
      return { head: headNote.read() };
    case "note_head":
      headNote.write(request.head, request.replaceAll);
      return {};
    case "health":
      operations.health();
      info.pin = readPinFlags(session, info.pin);
      return { keks: info.keks, pin: info.pin };
  }
}

function erase(request: TokenRequest, given: unknown): void {
  if (request.kind === "wrap") request.plain.fill(0);
  if (request.kind === "unwrap" && given instanceof Uint8Array) given.fill(0);
}

function classify(error: unknown): TokenRefusal {
  const message = reasonOf(error);
  if (error instanceof DamagedBox) return { reason: "damaged", message };
  if (error instanceof WrongPin) return { reason: "pin", message, pin: error.pin };
  if (error instanceof PinWithheld) return { reason: "withheld", message, ...error.details };
  return { reason: error instanceof StaleOffer ? "offer" : "token", message };
}

function reply(frame: ReplyFrame): void {
  const bytes = encodeFrame(frame);
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(PIPE, bytes, sent);
  bytes.fill(0);
}

serve();
