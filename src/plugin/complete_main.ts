#!/usr/bin/env node
import { complete } from "./completion.ts";
import { createKubectl } from "./kubectl.ts";

// kubectl calls this program with what was typed after `kubectl deputize`.
process.stdout.write(await complete(process.argv.slice(2), (common) => createKubectl(common)));
