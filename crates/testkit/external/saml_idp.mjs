// A SAML identity provider for tests: samlp behind a form that believes whatever is typed in.
import { existsSync } from 'node:fs';
import { listen, load, loginPage, options as given, postingPage, text } from './server.mjs';

const [{ default: express }, { default: samlp }] = await Promise.all([load('express'), load('samlp')]);
const options = given();
const { base, ready } = await listen();
const issuer = options.issuer ?? `${base}/metadata`;

/** The pair to sign with now; the test changes to the second one by writing a file. */
const pair = () => {
  const { certificate, key } = existsSync(options.rolled_over) ? options.second : options.first;
  return { cert: text(certificate), key: text(key) };
};

/** How samlp learns about somebody. Not an arrow: samlp looks for the prototype. */
function profile(person) {
  const isAddress = !person.id || person.id === person.email;
  const format = isAddress ? '1.1:nameid-format:emailAddress' : '2.0:nameid-format:persistent';
  return {
    getClaims: () => ({ email: person.email, givenname: person.first_name, surname: person.last_name }),
    getNameIdentifier: () => ({
      nameIdentifier: person.id || person.email,
      nameIdentifierFormat: `urn:oasis:names:tc:SAML:${format}`,
    }),
  };
}
profile.prototype.metadata = ['email', 'givenname', 'surname'].map((id) => ({ id, displayName: id }));

/** What the service asked for; nothing if somebody starts here. */
const asked = (request) =>
  new Promise((done, fail) =>
    samlp.parseRequest(request, (error, asked) => (error ? fail(error) : done(asked ?? {}))));

const signedResponse = (config, person) =>
  new Promise((done, fail) =>
    samlp.getSamlResponse(config, person, (error, response) => (error ? fail(error) : done(response))));

const answer = async (request, person) => {
  const { id, issuer: service, assertionConsumerServiceURL } = await asked(request);
  const consumer = assertionConsumerServiceURL ?? options.acs;
  const response = await signedResponse({
    ...pair(),
    issuer,
    inResponseTo: id,
    audience: options.audience ?? service,
    destination: consumer,
    recipient: consumer,
    lifetimeInSeconds: options.lifetime_seconds,
    signAssertion: options.signed !== 'response',
    signResponse: options.signed !== 'assertion',
    signatureAlgorithm: 'rsa-sha256',
    digestAlgorithm: 'sha256',
    authnContextClassRef: 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport',
    includeAttributeNameFormat: true,
    profileMapper: profile,
  }, person);
  const relayState = (request.body ?? request.query).RelayState;
  return postingPage(consumer, {
    SAMLResponse: Buffer.from(response).toString('base64'),
    ...(relayState && { RelayState: relayState }),
  });
};

const app = express();
app.set('query parser', 'simple');
app.get('/metadata', (request, response) =>
  samlp.metadata({
    issuer,
    cert: pair().cert,
    profileMapper: profile,
    redirectEndpointPath: '/sso',
    postEndpointPath: '/sso',
    logoutEndpointPaths: {},
  })(request, response));
app.get('/sso', async (request, response) => {
  await asked(request);
  response.send(options.user ? await answer(request, options.user) : loginPage('/sso', request.query));
});
app.post('/sso', express.urlencoded({ extended: false }), async (request, response) => {
  response.send(await answer(request, request.body));
});
ready(app);
