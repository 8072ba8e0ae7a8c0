// What a JSON Schema of the description says, in words and by example. Knows nothing of the page.

const DEEPEST = 8;

/** Answers questions about schemas of one OpenAPI description. */
export class Schemas {
  constructor(description) {
    this.description = description;
  }

  /** The schema behind any references, with the name under which it is known, if any. */
  resolve(schema) {
    const passed = new Set();
    let found = schema ?? {};
    let name = null;
    while (found.$ref !== undefined && !passed.has(found.$ref)) {
      passed.add(found.$ref);
      name = found.$ref.split("/").at(-1);
      const { $ref, ...beside } = found;
      found = { ...this.at($ref), ...beside };
    }
    return { schema: found, name };
  }

  /** What a local reference points at. */
  at(reference) {
    const steps = reference.replace(/^#\//, "").split("/");
    const names = steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    return names.reduce((place, name) => place?.[name], this.description) ?? {};
  }

  /** The alternatives of a schema without null, and whether null is one of them. */
  choices(schema) {
    const resolved = this.resolve(schema).schema;
    const given = resolved.anyOf ?? resolved.oneOf;
    if (given === undefined) {
      const types = [resolved.type].flat();
      const nullable = types.length > 1 && types.includes("null");
      return { nullable, options: [nullable ? withType(schema, resolved, types) : schema] };
    }
    const options = given.filter((choice) => choice.type !== "null");
    return { nullable: options.length < given.length, options };
  }

  /** The type in a few words. */
  typeText(schema, depth = 0) {
    if (depth > DEEPEST) return "…";
    const { nullable, options } = this.choices(schema);
    const words = options.map((option) => this.#plainType(option, depth + 1));
    return [...new Set(words), ...(nullable ? ["null"] : [])].join(" or ") || "null";
  }

  #plainType(given, depth) {
    const { schema, name } = this.resolve(given);
    if (schema.type === "array")
      return `${schema.uniqueItems ? "set" : "list"} of ${this.typeText(schema.items, depth)}`;
    if (schema.type === "object" && mapped(schema))
      return `map of ${this.typeText(schema.additionalProperties, depth)}`;
    if (name !== null) return schema.title ?? name;
    if (schema.enum !== undefined) return typeof schema.enum[0];
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    return [schema.type ?? "any", schema.format].filter(Boolean).join(" · ");
  }

  /** Bounds, patterns, defaults and units: each a phrase, code in backticks. */
  limits(schema) {
    const outer = this.resolve(schema).schema;
    const phrases = this.choices(schema).options.flatMap((option) => {
      const own = this.resolve(option).schema;
      const inside = this.#innermost(option);
      return [
        ...bounds(own),
        ...(own.type === inside.type ? [] : bounds(inside).map((text) => `each ${text}`)),
      ];
    });
    if (telling(outer.default)) phrases.push(`default \`${JSON.stringify(outer.default)}\``);
    return [...new Set(phrases)];
  }

  /** The values that a closed vocabulary allows. */
  values(schema) {
    return this.choices(schema).options.flatMap((option) => this.#innermost(option).enum ?? []);
  }

  /** Whether the value is personal data, or may hold some. */
  personal(schema) {
    const all = [schema, ...this.choices(schema).options].map((one) => this.resolve(one).schema);
    if (all.some((one) => one["x-personal-data"])) return "personal data";
    return all.some((one) => one["x-may-contain-personal-data"]) ? "may hold personal data" : null;
  }

  /** The element of a list or map, however often nested; otherwise the schema itself. */
  #innermost(given) {
    let { schema } = this.resolve(given);
    for (let depth = 0; depth < DEEPEST; depth += 1) {
      const inside =
        schema.type === "array" ? schema.items : mapped(schema) ? schema.additionalProperties : null;
      if (!inside) break;
      ({ schema } = this.resolve(this.choices(inside).options[0] ?? {}));
    }
    return schema;
  }

  /** The objects inside a value whose fields can be unfolded, each with its name. */
  objects(schema) {
    return this.choices(schema)
      .options.map((option) => this.#innermost(option))
      .filter(hasFields);
  }

  /** The fields of an object, the required ones first and in the order in which they were declared. */
  fields(schema) {
    const { properties = {}, required = [] } = this.resolve(schema).schema;
    const optional = Object.keys(properties).filter((name) => !required.includes(name));
    return [...required.filter((name) => name in properties), ...optional].map((name) => ({
      name,
      schema: properties[name],
      required: required.includes(name),
    }));
  }

  /** A value that fits; `every` fills optional fields too, `known(name)` may offer an id seen before. */
  example(schema, { every = false, known = () => null, now = new Date() } = {}) {
    return this.#example(schema, "", { every, known, now }, []);
  }

  #example(given, name, wish, around) {
    const { schema, name: known } = this.resolve(this.choices(given).options[0] ?? { type: "null" });
    const inside = [...around, known];
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined)
      return schema.enum.includes(schema.default) ? schema.default : schema.enum[0];
    if (scalar(schema.default)) return schema.default;
    switch ([schema.type].flat()[0]) {
      case "object":
        return around.length > DEEPEST ? {} : this.#exampleObject(schema, wish, inside);
      case "array":
        return this.#repeats(schema.items, inside)
          ? []
          : [this.#example(schema.items, singular(name), wish, inside)];
      case "integer":
      case "number":
        return exampleNumber(schema);
      case "boolean":
        return false;
      case "string":
        return exampleText(schema, name, wish);
      default:
        return null;
    }
  }

  #exampleObject(schema, wish, inside) {
    const wanted = this.fields(schema).filter(
      (field) => field.required || (wish.every && !this.#repeats(field.schema, inside)),
    );
    const entries = wanted.map((field) => [
      field.name,
      this.#example(field.schema, field.name, wish, inside),
    ]);
    // What the keys of a map must look like the description does not always say: better none than a wrong one.
    if (mapped(schema) && schema.propertyNames && wish.every) {
      const key = exampleText(this.resolve(schema.propertyNames).schema, "", wish);
      entries.push([key, this.#example(schema.additionalProperties, "", wish, inside)]);
    }
    return Object.fromEntries(entries);
  }

  /** Whether an example of `schema` would show again what it is already inside of. */
  #repeats(schema, inside) {
    const { name } = this.resolve(this.choices(schema ?? {}).options[0]);
    return inside.length > DEEPEST || (name !== null && inside.includes(name));
  }
}

function withType(schema, resolved, types) {
  const left = types.filter((type) => type !== "null");
  return { ...resolved, ...schema, type: left.length === 1 ? left[0] : left };
}

function mapped(schema) {
  return typeof schema.additionalProperties === "object" && schema.additionalProperties !== null;
}

function hasFields(schema) {
  return Object.keys(schema.properties ?? {}).length > 0;
}

/** Whether a default says more than that nothing is there. */
function telling(value) {
  return scalar(value) || Object.values(value ?? {}).some(telling);
}

function scalar(value) {
  return value !== undefined && value !== null && typeof value !== "object";
}

function bounds(schema) {
  const phrases = [
    range(schema.minLength, schema.maxLength, " characters"),
    range(schema.minimum, schema.maximum, ""),
    schema.exclusiveMinimum === undefined ? null : `more than ${schema.exclusiveMinimum}`,
    schema.exclusiveMaximum === undefined ? null : `less than ${schema.exclusiveMaximum}`,
    schema.multipleOf === undefined ? null : `a multiple of ${schema.multipleOf}`,
    range(schema.minItems, schema.maxItems, " items"),
    schema.pattern === undefined ? null : `matches \`${schema.pattern}\``,
    schema["x-unit"] === undefined ? null : `unit \`${schema["x-unit"]}\``,
  ];
  return phrases.filter((phrase) => phrase !== null);
}

function range(least, most, what) {
  if (least === undefined && most === undefined) return null;
  if (most === undefined) return `at least ${least}${what}`;
  return least === undefined ? `at most ${most}${what}` : `${least} to ${most}${what}`;
}

function exampleNumber({ minimum, exclusiveMinimum, maximum }) {
  const least = minimum ?? (exclusiveMinimum === undefined ? 1 : exclusiveMinimum + 1);
  return Math.min(Math.max(1, least), maximum ?? Infinity);
}

function exampleText(schema, name, { known, now }) {
  switch (schema.format) {
    case "uuid":
      return known(name) ?? "00000000-0000-0000-0000-000000000000";
    case "date-time":
      return exampleTime(name, now);
    case "date":
      return exampleTime(name, now).slice(0, 10);
    case "duration":
      return "PT1H";
    case "byte":
      return "ZXhhbXBsZQ==";
    default:
      return exampleWord(schema, name);
  }
}

/** Tomorrow at eight, and for the end of something at sixteen. */
function exampleTime(name, now) {
  const hour = /end|until|expire|before/.test(name) ? 16 : 8;
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1, hour))
    .toISOString()
    .replace(".000", "");
}

/** The first of a few guesses that pattern and length allow. */
function exampleWord({ pattern, minLength = 0, maxLength = Infinity }, name) {
  const words = name.replaceAll("_", " ").trim() || "text";
  const prefix = /^\^((?:[\w/:@ -]|\\[^\w])*)/.exec(pattern ?? "")?.[1].replaceAll("\\", "") ?? "";
  const guesses = [
    `Example ${words}`,
    "example",
    "Example",
    "EXAMPLE",
    "example-1",
    "E1",
    "1",
    "1.0",
    "example.org",
    `${prefix}example.org`,
    `${prefix}1`,
    "0".repeat(64),
  ];
  const fits = (guess) => guess.length >= minLength && guess.length <= maxLength && matches(pattern, guess);
  return guesses.find(fits) ?? `Example ${words}`.slice(0, maxLength);
}

function matches(pattern, text) {
  if (pattern === undefined) return true;
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return false;
  }
}

function singular(name) {
  return name.replace(/ids$/, "id").replace(/ies$/, "y").replace(/s$/, "");
}
