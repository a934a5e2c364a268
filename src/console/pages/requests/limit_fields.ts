import { type Html, html } from "../../../html/html.ts";
import type { KnownConstraint } from "../../../protocol/constraints/constraints.ts";
import { localClock } from "../../../protocol/constraints/time_window.ts";
import type { Fields } from "../../core/forms.ts";
import type { Visit } from "../../core/page.ts";
import { choicesOf, type Field, selectField, textField } from "../../elements/fields.ts";
import { type FieldReader, MOST_DEGREES } from "../../elements/form.ts";
import type { Texts } from "../../texts/texts.ts";

const FORM = "approve";

/** A limit that a person can add: its form fields, and the constraint that they describe. */
type LimitKind = {
  type: KnownConstraint["type"];
  title: keyof Texts["request"] & ("amount" | "rate" | "hours" | "place" | "speed" | "resource");
  /** Names of the limit's form fields. Errors appear at the first field. */
  names: readonly [string, ...string[]];
  fields(visit: Visit): Html;
  read(reader: FieldReader, texts: Texts): KnownConstraint;
};

const number = { inputmode: "decimal", autocomplete: "off", maxlength: 24 };

const KINDS: readonly LimitKind[] = [
  {
    type: "max_amount",
    title: "amount",
    names: ["amount_max", "currency"],
    fields: (
      visit,
    ) => html`${field(visit, { name: "amount_max", label: visit.texts.request.amountMax, attributes: number })}
      ${field(visit, {
        name: "currency",
        label: visit.texts.request.currency,
        hint: visit.texts.request.currencyHint,
        attributes: { maxlength: 16, autocomplete: "off" },
      })}`,
    read: ({ number, text }) => ({
      type: "max_amount",
      max_amount: number("amount_max"),
      currency: text("currency"),
    }),
  },
  {
    type: "max_rate",
    title: "rate",
    names: ["rate_count"],
    fields: (visit) => html`${field(visit, {
      name: "rate_count",
      label: visit.texts.request.rateCount,
      attributes: { ...number, inputmode: "numeric" },
    })}
      ${selectField(visit, {
        form: FORM,
        name: "rate_window",
        label: visit.texts.request.rateWindow,
        value: "3600",
        choices: choicesOf(visit.texts.request.windows),
      })}`,
    read({ whole, fault }, { request }) {
      const count = whole("rate_count");
      if (count < 1) fault("rate_count", request.notPositive);
      return { type: "max_rate", count, window_s: whole("rate_window") };
    },
  },
  {
    type: "time_window",
    title: "hours",
    names: ["window_start", "window_end"],
    fields: (
      visit,
    ) => html`${field(visit, { name: "window_start", label: visit.texts.request.hoursFrom, attributes: { type: "time" } })}
      ${field(visit, {
        name: "window_end",
        label: visit.texts.request.hoursTo,
        hint: visit.texts.request.hoursHint,
        attributes: { type: "time" },
      })}
      ${field(visit, {
        name: "zone",
        label: visit.texts.request.zone,
        hint: visit.texts.request.zoneHint,
        value: "UTC",
        attributes: { maxlength: 64, autocomplete: "off", spellcheck: "false" },
      })}`,
    read({ text, fault }, { request }) {
      const tz = text("zone");
      if (localClock(0, tz) === undefined) fault("zone", request.noZone);
      return { type: "time_window", start: text("window_start"), end: text("window_end"), tz };
    },
  },
  {
    type: "geo_circle",
    title: "place",
    names: ["latitude", "longitude", "radius"],
    fields: (visit) => html`<p class="hint">${visit.texts.request.placeHint}</p>
      ${field(visit, {
        name: "latitude",
        label: visit.texts.request.latitude,
        hint: visit.texts.request.latitudeHint,
        attributes: { ...number, inputmode: undefined },
      })}
      ${field(visit, {
        name: "longitude",
        label: visit.texts.request.longitude,
        hint: visit.texts.request.longitudeHint,
        attributes: { ...number, inputmode: undefined },
      })}
      ${field(visit, { name: "radius", label: visit.texts.request.radius, attributes: number })}`,
    read({ number, fault }, { request }) {
      const [lat, lon] = [number("latitude", MOST_DEGREES), number("longitude", MOST_DEGREES)];
      const radius_m = Math.round(number("radius") * 1_000);
      if (radius_m < 1) fault("radius", request.tooNear);
      return { type: "geo_circle", lat, lon, radius_m };
    },
  },
  {
    type: "max_speed_mps",
    title: "speed",
    names: ["speed"],
    fields: (visit) =>
      field(visit, {
        name: "speed",
        label: visit.texts.request.speedMax,
        hint: visit.texts.request.speedHint,
        attributes: number,
      }),
    read: ({ number }) => ({ type: "max_speed_mps", max_mps: number("speed") }),
  },
  {
    type: "resource_path",
    title: "resource",
    names: ["resource_id", "path_prefix"],
    fields: (visit) => html`${field(visit, {
      name: "resource_id",
      label: visit.texts.request.resourceId,
      hint: visit.texts.request.resourceHint,
      attributes: { maxlength: 512, autocomplete: "off", spellcheck: "false" },
    })}
      ${field(visit, {
        name: "path_prefix",
        label: visit.texts.request.pathPrefix,
        hint: visit.texts.request.pathHint,
        attributes: { maxlength: 4_096, autocomplete: "off", spellcheck: "false" },
      })}`,
    read({ text, optional }) {
      const path_prefix = optional("path_prefix");
      return {
        type: "resource_path",
        resource_id: text("resource_id"),
        ...(path_prefix !== "" && { path_prefix }),
      };
    },
  },
];

/**
 * Returns the form fields of every limit. A limit is collapsed if its fields are empty. `withAmount` follows
 * the fields of the limit on the amount.
 */
export function limitFields(visit: Visit, withAmount: Html | undefined): Html {
  const words = visit.texts.request;
  const { failure } = visit;
  const typed = failure?.form === FORM ? failure.typed : undefined;
  return html`<fieldset class="field add-limits" aria-describedby="add-limit-hint"><legend>${words.ownLimits}</legend>
    <p class="hint" id="add-limit-hint">${words.addLimitHint}</p>
    ${KINDS.map(
      (kind) => html`<details open=${typed !== undefined && isGiven(kind, typed)}>
        <summary>${words[kind.title]}</summary>
        <div class="limit-fields">${kind.fields(visit)}${kind.type === "max_amount" && withAmount}</div>
      </details>`,
    )}</fieldset>`;
}

/** Returns whether the submitted form has any limit, so that its fields should be visible. */
export function hasLimits({ failure }: Visit): boolean {
  return failure?.form === FORM && KINDS.some((kind) => isGiven(kind, failure.typed));
}

/** Returns the constraints that the fields describe. Limits with empty fields add none. */
export function readLimits({ texts }: Visit, fields: Fields, reader: FieldReader): KnownConstraint[] {
  return KINDS.filter((kind) => isGiven(kind, fields)).map((kind) => kind.read(reader, texts));
}

/** Returns the field that shows errors about a constraint of this type. */
export function fieldOfLimit(type: string): string | undefined {
  return KINDS.find((kind) => kind.type === type)?.names[0];
}

function isGiven({ names }: LimitKind, fields: Fields): boolean {
  return names.some((name) => fields.get(name).trim() !== "");
}

function field(visit: Visit, given: Omit<Field, "form">): Html {
  return textField(visit, { form: FORM, required: false, ...given });
}
