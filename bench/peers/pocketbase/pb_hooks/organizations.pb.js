/// Makes an organization with the caller as its owner and a default team: all of it or nothing.
routerAdd(
  "POST",
  "/api/organizations",
  (e) => {
    const { name } = e.requestInfo().body;
    const create = (app, collection, values) => {
      const record = new Record(app.findCachedCollectionByNameOrId(collection));
      record.load(values);
      app.save(record);
      return record;
    };
    let organization;
    e.app.runInTransaction((app) => {
      const slug = `${String(name).toLowerCase().replace(/[^a-z0-9]+/g, "-")}-${$security.randomString(8)}`;
      organization = create(app, "organizations", { name, slug });
      create(app, "members", { organization: organization.id, user: e.auth.id, level: 15 });
      create(app, "teams", { organization: organization.id, name: "Default" });
    });
    return e.json(201, organization);
  },
  $apis.requireAuth("users"),
);
