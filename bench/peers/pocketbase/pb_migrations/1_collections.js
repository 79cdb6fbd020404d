/// Organizations, members and teams. Who is not a member of an organization cannot see that it exists.
migrate((app) => {
  // Warnings and errors only, like the others; by default it stores a line for every request.
  const settings = app.settings();
  settings.logs.minLevel = 4;
  app.save(settings);

  const users = app.findCollectionByNameOrId("users");
  users.fields.add(new TextField({ name: "first_name" }), new TextField({ name: "last_name" }));
  // Enough that members can be listed with their users; a stricter rule would be evaluated for each of the 100.
  users.listRule = users.viewRule = '@request.auth.id != ""';
  app.save(users);

  const times = [
    { name: "created", type: "autodate", onCreate: true },
    { name: "updated", type: "autodate", onCreate: true, onUpdate: true },
  ];
  const organizations = new Collection({
    type: "base",
    name: "organizations",
    fields: [
      { name: "name", type: "text", required: true, max: 64 },
      { name: "slug", type: "text", required: true, max: 80 },
      { name: "is_member_join_email_enabled", type: "bool" },
      { name: "enforce_2fa", type: "bool" },
      ...times,
    ],
    indexes: ["CREATE UNIQUE INDEX organizations_slug ON organizations (slug)"],
  });
  app.save(organizations);

  const organization = {
    name: "organization",
    type: "relation",
    collectionId: organizations.id,
    required: true,
    maxSelect: 1,
    cascadeDelete: true,
  };
  const user = { name: "user", type: "relation", collectionId: users.id, required: true, maxSelect: 1, cascadeDelete: true };
  const members = new Collection({
    type: "base",
    name: "members",
    fields: [organization, user, { name: "level", type: "number", required: true, onlyInt: true }, ...times],
    indexes: [
      "CREATE UNIQUE INDEX members_once ON members (organization, user)",
      "CREATE INDEX members_user ON members (user)",
    ],
  });
  app.save(members);

  const teams = new Collection({
    type: "base",
    name: "teams",
    fields: [organization, { name: "name", type: "text", required: true, max: 64 }, ...times],
    indexes: ["CREATE INDEX teams_organization ON teams (organization)"],
  });
  app.save(teams);

  const isMember = (prefix) => `@request.auth.id != "" && ${prefix}members_via_organization.user ?= @request.auth.id`;
  organizations.listRule = organizations.viewRule = isMember("");
  app.save(organizations);
  for (const collection of [members, teams]) {
    collection.listRule = collection.viewRule = isMember("organization.");
    app.save(collection);
  }
});
