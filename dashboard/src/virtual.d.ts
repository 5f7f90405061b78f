declare module "virtual:submit-schema" {
  const schema: import("./form/schema-fields.ts").JsonSchema;
  export default schema;
}
declare module "virtual:notify-schema" {
  const schema: import("./form/schema-fields.ts").JsonSchema;
  export default schema;
}
declare module "*.css";
