import { execFileSync } from "node:child_process";
import { mkdtempSync, rmdirSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Whether this process may mount disks, which needs Linux and root. */
export const mayMount = process.platform === "linux" && process.getuid?.() === 0;

/** A disk in memory that can become full. */
export type SmallDisk = {
  path: string;
  /** Takes away all free space except 256 kB. */
  fill(): void;
  /** Gives back the space that `fill` has taken. */
  free(): void;
  remove(): void;
};

const LEFT_BYTES = 262_144;

/** Mounts an empty disk of this size, for example `3g`. */
export function mountSmallDisk(size: string): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), "deputize-disk-"));
  const mount = (options: string) =>
    execFileSync("mount", ["-t", "tmpfs", "-o", `${options},mode=755`, "tmpfs", path]);
  mount(`size=${size}`);
  return {
    path,
    fill() {
      const { blocks, bfree, bsize } = statfsSync(path);
      mount(`remount,size=${(blocks - bfree) * bsize + LEFT_BYTES}`);
    },
    free: () => void mount(`remount,size=${size}`),
    remove() {
      execFileSync("umount", ["--lazy", path]);
      rmdirSync(path);
    },
  };
}
