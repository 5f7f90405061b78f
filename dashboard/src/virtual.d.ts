declare module "virtual:submit-schema" {
  const schema: import("./form/schema-fields.ts").JsonSchema;
  export default schema;
}
declare module "virtual:credential-fields" {
  const fields: typeof import("../../src/schemas/credentials.ts").CREDENTIAL_FIELDS;
  export default fields;
}
declare module "*.css";
