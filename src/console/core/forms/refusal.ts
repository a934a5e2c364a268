import { type Html, html } from "../../../html/html.ts";
import type { Failure, Visit } from "../page.ts";

/** What is wrong with a field of a form, to be said beside it. */
export function faultBeside({ failure }: Visit, { form, name }: { form: string; name: string }) {
  const fault = failure?.form === form ? failure.fields.get(name) : undefined;
  if (fault !== undefined) failure?.said.add(name);
  return fault;
}

/** What a form was refused for, above it. Its fields are made first: what they do not say is said here. */
export function refusal(visit: Visit, form: string): Html | undefined {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form || failure.message === "") return undefined;
  failure.isSaid = true;
  return alert(failure);
}

/** A page's content, below what a form was refused for that the page shows no more. */
export function withRefusal({ failure }: Visit, content: Html): Html {
  if (failure === undefined || failure.isSaid || failure.message === "") return content;
  return html`${alert(failure)}${content}`;
}

function alert({ message, fields, said }: Failure): Html {
  const above = [...fields].filter(([name]) => !said.has(name)).map(([, fault]) => fault);
  if (above.length < fields.size || fields.size === 0) above.push(message);
  return html`<p class="refusal" role="alert">${above.join(" ")}</p>`;
}
