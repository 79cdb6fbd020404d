/// One organization of 100 members, and the requests to measure, into the file that REQUESTS_FILE names.
migrate((app) => {
  const MEMBERS = 100;
  const OWNER = 15;
  const LEVELS = [1, 1, 1, 8];

  const save = (collection, values) => {
    const record = new Record(app.findCollectionByNameOrId(collection));
    record.load(values);
    app.save(record);
    return record;
  };
  const saveUser = (n) => {
    const user = new Record(app.findCollectionByNameOrId("users"));
    user.load({ email: `member${n}@example.com`, emailVisibility: true, verified: true });
    user.load({ first_name: `First${n}`, last_name: `Last${n}` });
    user.setRandomPassword();
    app.save(user);
    return user;
  };

  const organization = save("organizations", { name: "Hedgehogs", slug: "hedgehogs" });
  save("teams", { organization: organization.id, name: "Default" });
  let owner;
  for (let n = 0; n < MEMBERS; n += 1) {
    const user = saveUser(n);
    owner ??= user;
    const level = n === 0 ? OWNER : LEVELS[n % LEVELS.length];
    save("members", { organization: organization.id, user: user.id, level });
  }

  const headers = { Authorization: owner.newAuthToken() };
  const filter = encodeURIComponent(`organization="${organization.id}"`);
  const requests = {
    retrieve: { method: "GET", path: `/api/collections/organizations/records/${organization.id}`, headers },
    list: { method: "GET", path: `/api/collections/members/records?perPage=100&expand=user&filter=${filter}`, headers },
    create: {
      method: "POST",
      path: "/api/organizations",
      headers: { ...headers, "Content-Type": "application/json" },
      body: JSON.stringify({ name: "bench {{n}}" }),
    },
  };
  $os.writeFile($os.getenv("REQUESTS_FILE"), JSON.stringify(requests, null, 2), 0o644);
});
