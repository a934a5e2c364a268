import { type GoProgram, goProgram } from "../go_program.ts";

const VERSION = "1.36.3";

/**
 * The API server, etcd and the controllers in one binary: about 4 minutes to build on two cores, the first
 * time.
 */
export async function kubernetesBinary(): Promise<GoProgram> {
  const version = "k8s.io/component-base/version";
  const [major, minor] = VERSION.split(".");
  return goProgram({
    sources: import.meta.dirname,
    name: "kubernetes",
    folder: `kubernetes-${VERSION}`,
    what: "a Kubernetes API server",
    linkerFlags: [
      `-X ${version}.gitVersion=v${VERSION}`,
      `-X ${version}.gitMajor=${major}`,
      `-X ${version}.gitMinor=${minor}`,
    ],
  });
}
