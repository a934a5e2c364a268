// A vitest reporter. Writes to the file REPORT the number of passed tests, the failures with their messages, and
// the skipped tests. Failures include test files and groups whose hooks failed, which vitest's JSON reporter
// shows without a message.
import { writeFileSync } from "node:fs";

/** At most this many errors of one failure are kept. */
const MOST_ERRORS = 3;

export default class Report {
  onTestRunEnd(modules, unhandledErrors) {
    const report = { passed: 0, failed: [], skipped: [] };
    const fail = (name, errors) => {
      if (errors.length > 0) report.failed.push({ name, messages: errors.slice(0, MOST_ERRORS).map(textOf) });
    };
    for (const module of modules) {
      fail(`${module.relativeModuleId} as a whole`, module.errors());
      for (const suite of module.children.allSuites()) fail(`${suite.fullName} as a whole`, suite.errors());
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result();
        if (state === "passed") report.passed += 1;
        else if (state === "failed") fail(test.fullName, errors);
        else report.skipped.push(test.fullName);
      }
    }
    fail("outside of the tests", unhandledErrors);
    writeFileSync(process.env.REPORT, JSON.stringify(report));
  }
}

function textOf({ stack, message }) {
  return stack?.includes(message) ? stack : `${message}\n${stack ?? ""}`;
}
