/* Makes a process ask the DNS server NAME_SERVER instead of the machine's. Load it with --import. */
import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";

const { Resolver } = dns.promises;

dns.promises.Resolver = class extends Resolver {
  constructor(options) {
    super(options);
    this.setServers([process.env.NAME_SERVER]);
  }
};
syncBuiltinESMExports();
