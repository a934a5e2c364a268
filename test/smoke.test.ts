import { expect, test } from "vitest";
import { PROTOCOL_VERSION } from "../src/protocol/constants.ts";

test("speaks version 1", () => expect(PROTOCOL_VERSION).toBe(1));
