import { connect } from "node:net";
import { debianProgram } from "../../support/debian.ts";
import { startGateway } from "../../support/gateway.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { describeGateway, type Places } from "./contract.ts";

const program = await debianProgram("/usr/sbin/nginx", "nginx-light");
const [server = "", application = ""] = (await codeBlocks("docs/gateways.md", "nginx")).map(
  ({ code }) => code,
);

/** Adds the parts that docs/gateways.md leaves out, to run nginx as one process in the foreground. */
function around(folder: string, locations: string, { port, application: address }: Places): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
    daemon off; master_process off; pid ${folder}/pid; error_log stderr warn;
    events { worker_connections 64; }
    http {
      access_log off;
      ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join(" ")}
      upstream orders { server ${address}; }
      server { listen 127.0.0.1:${port}; ${locations} }
    }`;
}

describeGateway({
  name: "nginx",
  missing: program === undefined ? "Debian's nginx-light" : undefined,
  start: (places) => {
    const { service, key, port } = places;
    const locations = server.replace("deputize:8080", service).replace("$deputize_api_key", key);
    return startGateway({
      program: program ?? "",
      files: (folder) => ({
        "nginx.conf": around(folder, locations, places),
        "deputize_application.conf": application,
      }),
      args: (folder) => ["-c", `${folder}/nginx.conf`, "-p", folder, "-e", "stderr"],
      isReady: () => accepts(port),
    });
  },
});

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true));
    socket.on("error", () => resolve(false)).on("connect", () => socket.destroy());
  });
}
