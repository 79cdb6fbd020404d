// An OpenID Connect provider for tests: oidc-provider behind a form that believes whatever is typed in.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { listen, load, loginPage, options as given } from './server.mjs';

const { default: Provider } = await load('oidc-provider');
const options = given();
const { base, ready } = await listen();
const people = new Map();
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

const provider = new Provider(base, {
  clients: [{
    client_id: options.client_id,
    client_secret: options.client_secret,
    redirect_uris: options.redirect_uri.split(' '),
    grant_types: ['authorization_code'],
    response_types: ['code'],
  }],
  claims: {
    openid: ['sub'],
    email: ['email', 'email_verified'],
    profile: ['given_name', 'family_name', 'name'],
  },
  // Claims stand in the id token too, not only behind the userinfo address.
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'first' }] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (context, id) => people.has(id) && { accountId: id, claims: () => claims(id) },
});

const claims = (id) => {
  const { email, first_name, last_name } = people.get(id);
  return {
    sub: id,
    email,
    email_verified: options.are_emails_verified,
    given_name: first_name,
    family_name: last_name,
    name: `${first_name} ${last_name}`,
  };
};

const body = async (request) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Object.fromEntries(new URLSearchParams(Buffer.concat(chunks).toString()));
};

/** Signing in agrees to everything the client asked for. */
const agreed = async (request, response, person) => {
  const { params } = await provider.interactionDetails(request, response);
  const id = person.id || person.email;
  people.set(id, person);
  const grant = new provider.Grant({ accountId: id, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  return { login: { accountId: id }, consent: { grantId: await grant.save() } };
};

const answer = provider.callback();
ready(async (request, response) => {
  if (!request.url.startsWith('/interaction/')) return answer(request, response);
  try {
    if (request.method === 'POST') {
      const person = await body(request);
      // The second button of the form: somebody who changes their mind.
      const result = 'cancel' in person
        ? { error: 'access_denied', error_description: 'the person cancelled' }
        : await agreed(request, response, person);
      return await provider.interactionFinished(request, response, result);
    }
    await provider.interactionDetails(request, response);
    response.setHeader('content-type', 'text/html; charset=utf-8').end(loginPage(request.url, {}, true));
  } catch (error) {
    console.error(error);
    response.writeHead(400).end(String(error));
  }
});
