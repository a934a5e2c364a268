#!/usr/bin/env node
import { complete } from "./completion.ts";
import { createKubectl } from "./kubectl.ts";

// kubectl runs this program with the words that the user typed after `kubectl deputize`.
process.stdout.write(await complete(process.argv.slice(2), (common) => createKubectl(common)));
