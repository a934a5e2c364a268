import { describe, expect, test } from "vitest";
import { MIDNIGHT_UTC, outcome } from "../../support/answers.ts";

describe("time_window", () => {
  const office = { type: "time_window", start: "09:00", end: "17:00", tz: "UTC" } as const;
  const clock = (hours: number, minutes: number, seconds = 0) =>
    MIDNIGHT_UTC + hours * 3600 + minutes * 60 + seconds;

  test.each([
    ["08:59:59", clock(8, 59, 59), "constraint_denied"],
    ["09:00:00", clock(9, 0), "holds"],
    ["17:00:59", clock(17, 0, 59), "holds"],
    ["17:01:00", clock(17, 1), "constraint_denied"],
  ])("holds from 09:00 to 17:00. At %s, the result is %s", async (_, now, expected) => {
    expect(await outcome(office, {}, now)).toBe(expected);
  });

  test.each([
    [clock(21, 59, 59), "constraint_denied"],
    [clock(22, 0), "holds"],
    [clock(23, 59, 59), "holds"],
    [clock(24, 0), "holds"],
    [clock(30, 0, 59), "holds"],
    [clock(30, 1), "constraint_denied"],
  ])("crosses midnight from 22:00 to 06:00. At %d, the result is %s", async (now, expected) => {
    expect(await outcome({ ...office, start: "22:00", end: "06:00" }, {}, now)).toBe(expected);
  });

  test("holds for the whole minute if start and end are equal", async () => {
    const noon = { ...office, start: "12:00", end: "12:00" };
    expect(await outcome(noon, {}, clock(12, 0, 59))).toBe("holds");
    expect(await outcome(noon, {}, clock(12, 1))).toBe("constraint_denied");
  });

  test("uses local time, before and after a clock change", async () => {
    const berlin = { ...office, tz: "Europe/Berlin" };
    const [winter, summer] = [Date.UTC(2027, 2, 27, 8, 0) / 1000, Date.UTC(2027, 2, 29, 7, 0) / 1000];
    expect(await outcome(berlin, {}, winter - 1)).toBe("constraint_denied");
    expect(await outcome(berlin, {}, winter)).toBe("holds");
    expect(await outcome(berlin, {}, summer - 1)).toBe("constraint_denied");
    expect(await outcome(berlin, {}, summer)).toBe("holds");
  });

  test("supports time zones whose offset is not a whole number of hours", async () => {
    expect(await outcome({ ...office, tz: "Asia/Kathmandu" }, {}, clock(3, 15))).toBe("holds");
    expect(await outcome({ ...office, tz: "Asia/Kathmandu" }, {}, clock(3, 14, 59))).toBe(
      "constraint_denied",
    );
  });

  test.each(["UTC", "Europe/Kyiv", "US/Pacific", "Asia/Calcutta", "EST5EDT", "Etc/GMT+12"])(
    "supports the current or legacy zone name %j",
    async (tz) => {
      expect(await outcome({ ...office, tz, start: "00:00", end: "23:59" }, {})).toBe("holds");
    },
  );

  test.each(["utc", "europe/zurich", "EUROPE/ZURICH", "us/pacific"])(
    "denies every time in the zone %j, because other verifiers do not know this spelling",
    async (tz) => {
      expect(await outcome({ ...office, tz, start: "00:00", end: "23:59" }, {})).toBe("constraint_denied");
    },
  );

  test.each(["", "Mars/Olympus", "+00:00", "Local", "Local\0", "UTC ", "PST"])(
    "denies every time in the unknown zone %j",
    async (tz) => {
      expect(await outcome({ ...office, tz, start: "00:00", end: "23:59" }, {})).toBe("constraint_denied");
    },
  );

  test.each(["9:00", "09:60", "24:00", "0900", "09:00:00", " 9:00", ""])(
    "denies every time if its start is %j",
    async (start) => {
      expect(await outcome({ ...office, start }, {}, clock(12, 0))).toBe("constraint_denied");
    },
  );
});
