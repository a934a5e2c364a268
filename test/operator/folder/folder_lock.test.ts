import { mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StartError } from "../../../src/config.ts";
import { LOCK_FILE, lockFolders } from "../../../src/operator/folder/folder_lock.ts";

describe("the lock of an operator's folders", () => {
  let home: string;
  let releases: (() => void)[];
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "deputize-folder-lock-"));
    releases = [];
  });
  afterEach(async () => {
    for (const release of releases) release();
    await rm(home, { recursive: true });
  });
  const status = (path = join(home, "status")) => ({ path, mode: 0o755, setting: "STATUS_DIR" });
  const secrets = (path = join(home, "secrets")) => ({ path, mode: 0o700, setting: "SECRETS_DIR" });
  const lock = async (...folders: ReturnType<typeof status>[]): Promise<() => void> => {
    const release = await lockFolders(folders);
    releases.push(release);
    return release;
  };

  test("refuses a second operator until the first operator releases it", async () => {
    const release = await lock(status(), secrets());
    const refused = lock(status(), secrets());
    await expect(refused).rejects.toThrow(StartError);
    await expect(refused).rejects.toThrow(
      `STATUS_DIR: another operator uses ${join(home, "status")}. Stop it, or choose another folder`,
    );
    release();
    await lock(status(), secrets());
  });

  test("refuses an operator that shares only one folder, and then keeps no lock on the other", async () => {
    await lock(status(), secrets());
    const other = status(join(home, "other"));
    await expect(lock(other, secrets())).rejects.toThrow("SECRETS_DIR: another operator uses");
    await lock(other);
  });

  test("recognizes a folder under another path, and accepts one folder for both settings", async () => {
    await lock(status(), secrets(join(home, "status")));
    await symlink(join(home, "status"), join(home, "link"));
    await expect(lock(status(join(home, "link")))).rejects.toThrow("another operator uses");
  });

  test("creates folders with their permissions, and leaves one empty file in each", async () => {
    await lock(status(), secrets());
    expect(((await stat(join(home, "secrets"))).mode & 0o777).toString(8)).toBe("700");
    expect(await readdir(join(home, "status"))).toEqual([LOCK_FILE]);
    expect((await stat(join(home, "status", LOCK_FILE))).size).toBe(0);
  });

  test("names the setting of a folder that cannot be used", async () => {
    await writeFile(join(home, "file"), "");
    await expect(lock(status(join(home, "file", "status")))).rejects.toThrow(
      /^STATUS_DIR: .*status cannot be created or used \(ENOTDIR\)/,
    );
    await writeFile(join(home, LOCK_FILE), "x".repeat(1000));
    await expect(lock(secrets(home))).rejects.toThrow(/^SECRETS_DIR: .* is not a lock file. Remove it$/);
    await rm(join(home, LOCK_FILE));
    await writeFile(join(home, LOCK_FILE), "");
    await lock(secrets(home));
  });
});
