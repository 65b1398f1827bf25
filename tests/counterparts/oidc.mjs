// Owns real authorization servers and identity providers (oidc-provider) for one test: as many as the job asks for.
// It must not know mcphub, nor any MCP server: resources are whatever is asked for.
// Job (argv[2], JSON): {NAME: {ttl, idTtl, opaque, nonce, document, clients, trusts, jag, refuses, register}}, all optional:
//   ttl         seconds of access tokens             idTtl     of id tokens, by client
//   nonce       DPoP proofs need one
//   opaque      access tokens are no JWTs, so that who gets one must ask
//   clients     registered before (RFC 7591 names)   register  false = nobody can register itself
//   document    true = client ids may be URLs
//   trusts      NAME of the provider whose assertions (ID-JAG) are taken, `jag` = the client they are for there
//   refuses     a word in the resource for which this provider gives nobody an assertion
// Prints {NAME: issuer}, then one line {name, grant, client, error} for each request for tokens. Ends with its stdin.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../.counterparts/", import.meta.url));
console.warn = console.info = () => {};
const { Provider, errors } = await import(pathToFileURL(require.resolve("oidc-provider")));
const jose = await import(pathToFileURL(require.resolve("jose")));

const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const JAG = "urn:ietf:params:oauth:token-type:id-jag";
const SCOPES = "mcp:read mcp:write";
const job = JSON.parse(process.argv[2]);
const all = {};
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function key(alg) {
  const { privateKey } = await jose.generateKeyPair(alg, { extractable: true });
  return { ...(await jose.exportJWK(privateKey)), alg, use: "sig", kid: crypto.randomUUID() };
}

// RFC 8693 at the identity provider: a login for an assertion that one authorization server takes.
function exchanges({ provider, issuer, name, keys, wanted }) {
  provider.registerGrantType(
    EXCHANGE,
    async (ctx) => {
      const { subject_token: token, audience, resource, requested_token_type: kind } = ctx.oidc.params;
      if (kind !== JAG) throw new errors.InvalidRequest("only ID-JAGs are given");
      const own = jose.createLocalJWKSet({ keys: keys.map(({ d, p, q, dp, dq, qi, ...known }) => known) });
      let login;
      try {
        login = (await jose.jwtVerify(token, own, { issuer, audience: ctx.oidc.client.clientId })).payload;
      } catch (error) {
        throw new errors.InvalidGrant(`subject_token: ${error.code ?? error}`);
      }
      const taker = Object.values(all).find((one) => one.issuer === audience && one.wanted.trusts === name);
      if (!taker) throw new errors.InvalidTarget("no such audience");
      if (wanted.refuses && resource.includes(wanted.refuses)) throw new errors.AccessDenied("not for this person");
      const sign = keys.find((one) => one.alg === "ES256");
      const made = await new jose.SignJWT({ resource, client_id: taker.wanted.jag })
        .setProtectedHeader({ alg: "ES256", typ: "oauth-id-jag+jwt", kid: sign.kid })
        .setIssuer(issuer)
        .setSubject(login.sub)
        .setAudience(audience)
        .setIssuedAt()
        .setExpirationTime("1m")
        .setJti(crypto.randomUUID())
        .sign(await jose.importJWK(sign, "ES256"));
      ctx.body = { access_token: made, issued_token_type: JAG, token_type: "N_A", expires_in: 60 };
    },
    ["subject_token", "subject_token_type", "requested_token_type", "audience", "resource", "scope"],
    ["resource"],
  );
}

// RFC 7523 at an authorization server: such an assertion for an access token.
function takes({ provider, issuer, wanted, info }) {
  provider.registerGrantType(
    BEARER,
    async (ctx) => {
      const idp = all[wanted.trusts];
      const { assertion, resource } = ctx.oidc.params;
      let claims;
      try {
        const from = jose.createRemoteJWKSet(new URL(`${idp.issuer}/jwks`));
        const rules = { issuer: idp.issuer, audience: issuer, typ: "oauth-id-jag+jwt" };
        claims = (await jose.jwtVerify(assertion, from, rules)).payload;
      } catch (error) {
        throw new errors.InvalidGrant(`assertion: ${error.code ?? error}`);
      }
      const { client } = ctx.oidc;
      if (claims.client_id !== client.clientId) throw new errors.InvalidGrant("assertion: of another client");
      if (claims.resource !== resource) throw new errors.InvalidTarget("assertion: for another resource");
      const grant = new provider.Grant({ accountId: claims.sub, clientId: client.clientId });
      grant.addResourceScope(resource, SCOPES);
      const token = new provider.AccessToken({ accountId: claims.sub, client, grantId: await grant.save(), gty: BEARER });
      token.resourceServer = new provider.ResourceServer(resource, info(resource));
      token.scope = SCOPES;
      ctx.body = { access_token: await token.save(), token_type: "Bearer", expires_in: token.expiration, scope: SCOPES };
    },
    ["assertion", "resource", "scope"],
    ["resource"],
  );
}

function failed(ctx) {
  if (ctx.status === 200) return "";
  return [ctx.body?.error, ctx.body?.error_description, ctx.state?.detail].filter(Boolean).join(": ");
}

async function start(name, wanted) {
  let callback = (_, response) => response.writeHead(503).end();
  const server = createServer((request, response) => callback(request, response));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const keys = [await key("RS256"), await key("ES256")];
  const ttl = wanted.ttl ?? 600;
  const info = (resource) => ({
    scope: SCOPES,
    audience: resource,
    accessTokenFormat: wanted.opaque ? "opaque" : "jwt",
    accessTokenTTL: ttl,
    ...(wanted.opaque ? {} : { jwt: { sign: { alg: "ES256" } } }),
  });
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: wanted.clients ?? [],
    cookies: { keys: [crypto.randomUUID()] },
    scopes: ["openid", "offline_access", "email", ...SCOPES.split(" ")],
    claims: { openid: ["sub"], email: ["email"] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.org` }) }),
    pkce: { required: () => true },
    rotateRefreshToken: () => true,
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    clientAuthMethods: ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
    ttl: {
      AccessToken: ttl,
      ClientCredentials: ttl,
      IdToken: (_, token, client) => wanted.idTtl?.[client.clientId] ?? 600,
      RefreshToken: 86400,
      Grant: 86400,
      Session: 86400,
      Interaction: 600,
    },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: wanted.register !== false },
      clientCredentials: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true },
      dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => Boolean(wanted.nonce) },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => info(resource),
        useGrantedResource: () => true,
      },
      ...(wanted.document ? { clientIdMetadataDocument: { enabled: true, ack: "draft-02" } } : {}),
    },
    // Its own guard does not let it ask for a document on this machine.
    fetch: (url, options) => globalThis.fetch(url, { ...options, dispatcher: undefined }),
  });
  provider.use(async (ctx, next) => {
    await next();
    if (ctx.path !== "/token") return;
    const { params = {}, client } = ctx.oidc ?? {};
    tell({ name, grant: params?.grant_type ?? "", client: client?.clientId ?? "", error: failed(ctx) });
  });
  provider.on("grant.error", (ctx, error) => (ctx.state.detail = error.error_detail));
  all[name] = { provider, issuer, name, wanted, keys, info, server };
  callback = provider.callback();
  if (wanted.trusts) takes(all[name]);
  else exchanges(all[name]);
}

for (const [name, wanted] of Object.entries(job)) await start(name, wanted);
tell(Object.fromEntries(Object.values(all).map((one) => [one.name, one.issuer])));
process.stdin.on("end", () => process.exit(0)).resume();
