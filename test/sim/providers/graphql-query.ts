// Parses a query, checks it against the schema and fills in its variables with `graphql` itself, as the real server does. The
// simulated provider resolves the fields.

import {
  getVariableValues,
  GraphQLScalarType,
  Kind,
  OperationTypeNode,
  parse,
  validate,
  valueFromASTUntyped,
  type DocumentNode,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from "graphql";

export interface Field {
  alias: string;
  name: string;
  args: Record<string, unknown>;
  fields: Field[] | null;
}

/** The real server answers this with status 400. */
export class BadQuery extends Error {}

export interface Operation {
  kind: "query" | "mutation";
  fields: Field[];
}

/** Throws `BadQuery` with the message of `graphql`. */
export function readQuery(schema: GraphQLSchema, text: unknown, variables: unknown): Operation {
  if (typeof text !== "string" || text.trim() === "")
    throw new BadQuery("GraphQL operations must contain a non-empty `query`.");
  const [wrong] = [...validate(schema, parsed(text))];
  if (wrong) throw new BadQuery(wrong.message);
  const operation = parsed(text).definitions.find(
    (each): each is OperationDefinitionNode => each.kind === Kind.OPERATION_DEFINITION,
  );
  if (!operation) throw new BadQuery("Must provide an operation.");
  const given = typeof variables === "object" && variables !== null ? { ...variables } : {};
  const values = getVariableValues(schema, operation.variableDefinitions ?? [], given);
  if (values.coerced === undefined) throw new BadQuery(values.errors?.[0]?.message ?? "Variables are not valid.");
  const { coerced } = values;
  return {
    kind: operation.operation === OperationTypeNode.MUTATION ? "mutation" : "query",
    fields: fieldsOf(operation.selectionSet, coerced),
  };
}

function parsed(text: string): DocumentNode {
  try {
    return parse(text);
  } catch (error) {
    throw new BadQuery(error instanceof Error ? error.message : String(error));
  }
}

function fieldsOf(set: SelectionSetNode, variables: Readonly<Record<string, unknown>>): Field[] {
  return set.selections.map((selection) => {
    // No client of the simulator uses them.
    if (selection.kind !== Kind.FIELD) throw new BadQuery("Fragments are not simulated.");
    const args = (selection.arguments ?? []).map(({ name, value }): [string, unknown] => [
      name.value,
      valueFromASTUntyped(value, { ...variables }),
    ]);
    return {
      alias: selection.alias?.value ?? selection.name.value,
      name: selection.name.value,
      args: Object.fromEntries(args),
      fields: selection.selectionSet ? fieldsOf(selection.selectionSet, variables) : null,
    };
  });
}

/** The requested fields, under their requested names. */
export function project(value: unknown, fields: readonly Field[] | null): unknown {
  if (value === null || value === undefined || fields === null) return value ?? null;
  if (Array.isArray(value)) return value.map((each) => project(each, fields));
  const record: Record<string, unknown> = { ...value };
  return Object.fromEntries(fields.map(({ alias, name, fields: below }) => [alias, project(record[name], below)]));
}

/** Makes a scalar refuse text that is not an instant, as the server's own does. */
export function checkInstants(schema: GraphQLSchema, name: string): GraphQLSchema {
  const scalar = schema.getType(name);
  if (scalar instanceof GraphQLScalarType)
    scalar.parseValue = (value) => {
      if (/^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(String(value))) return String(value);
      throw new BadQuery("invalid DateTime");
    };
  return schema;
}
