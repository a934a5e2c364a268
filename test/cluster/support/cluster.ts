import { existsSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { LOCKED_NODE } from "../../../src/dev/setup/node.mjs";
import { run } from "./run.ts";

/** `receiverHost` is the address at which the cluster's pods reach this machine. */
export type Cluster = {
  kubeconfig: string;
  helm: string;
  receiverHost: string;
  /** `archive` is the path of an image archive. */
  importImage(archive: string): Promise<void>;
  /** Deletes only a cluster that the suite created. */
  close(): Promise<void>;
};

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

/** Address at which the one-node cluster reaches this machine. */
const MACHINE = "10.89.0.1";
/** This machine's end of the network link, which exists while any cluster of the scripts runs. */
const LINK = "/sys/class/net/k8t-host";
/** Folders that are built once and shared by all clusters of the scripts. */
const SHARED = ["bin", "img", "layers", "rootfs-node"];

/**
 * Opens the cluster of KUBECONFIG_TEST, or creates one with the scripts of CLUSTER_SCRIPTS. Throws `Error`
 * with the missing parts if neither is possible.
 */
export async function openCluster(): Promise<Cluster> {
  const { KUBECONFIG_TEST: kubeconfig = "" } = process.env;
  return kubeconfig === "" ? bringUp(scriptsFolder()) : existing(kubeconfig);
}

/** Opens an existing cluster. Its owner must import the images. */
async function existing(kubeconfig: string): Promise<Cluster> {
  const { RECEIVER_HOST: receiverHost = "", HELM: helm = "helm" } = process.env;
  if (receiverHost === "") {
    throw new Error(
      "KUBECONFIG_TEST needs RECEIVER_HOST too: this machine's address, as pods of the cluster reach it",
    );
  }
  await run(helm, ["version"]).catch(() => {
    throw new Error("KUBECONFIG_TEST needs helm: on the PATH, or its path in HELM");
  });
  return {
    kubeconfig,
    helm,
    receiverHost,
    importImage: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

function scriptsFolder(): string {
  const { CLUSTER_SCRIPTS: given = "" } = process.env;
  const places =
    given === "" ? ["..", "../..", "../../.."].map((up) => join(ROOT, up, "shared/cluster")) : [given];
  const found = places.find((place) => existsSync(join(place, "up.sh")));
  if (found !== undefined) return found;
  throw new Error(
    `No cluster to test on: there is no up.sh in ${places.join(", ")}. Set CLUSTER_SCRIPTS to the folder of scripts that bring up a cluster of one node, or KUBECONFIG_TEST to an administrator's kubeconfig.`,
  );
}

/** Creates a cluster whose state is separate from that of the scripts' other clusters. */
async function bringUp(scripts: string): Promise<Cluster> {
  const built = process.env.CLUSTER_HOME ?? join(homedir(), ".cache/deputize/cluster");
  const home = `${built}-suite`;
  const script = (name: string, folder = home) =>
    run(join(scripts, name.split(" ")[0] ?? ""), name.split(" ").slice(1), {
      env: { CLUSTER_HOME: folder, NODE_BIN: join(ROOT, LOCKED_NODE) },
    });
  await script("build.sh", built);
  if (!existsSync(join(built, "img/node.tar"))) await script("images.sh", built);
  await mkdir(home, { recursive: true });
  for (const name of SHARED) {
    if (!existsSync(join(home, name))) await symlink(join(built, name), join(home, name));
  }
  const keep = process.env.CLUSTER_KEEP === "1";
  const isUp =
    keep &&
    (await run("kubectl", ["get", "--raw=/readyz"], envOf(home)).then(
      () => true,
      () => false,
    ));
  if (!isUp) {
    await script("down.sh --purge");
    if (existsSync(LINK)) {
      throw new Error(`Another cluster of ${scripts} is up, and there can be one: end it with its down.sh`);
    }
    await run("setsid", ["--wait", join(scripts, "up.sh")], { env: { CLUSTER_HOME: home } });
  }
  return {
    kubeconfig: join(home, "pki/admin.conf"),
    helm: join(built, "bin/helm"),
    receiverHost: MACHINE,
    async importImage(archive) {
      const socket = join(home, "run/containerd.sock");
      await run(join(built, "bin/ctr"), [
        "-a",
        socket,
        "-n",
        "k8s.io",
        "images",
        "import",
        "--local",
        archive,
      ]);
    },
    close: async () => {
      if (!keep) await script("down.sh --purge");
    },
  };
}

function envOf(home: string) {
  return { env: { KUBECONFIG: join(home, "pki/admin.conf") } };
}
