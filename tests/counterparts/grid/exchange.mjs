// Owns what a TypeScript client of the grid does: with each server, every feature once, and what it saw of it.
// It must not know mcphub, nor which SDK it is on: `open` gives a connected client, and the few things that differ.
// Job (argv[2], JSON): {pairs: [{me, mode, it, url, prefix}], features: [name]}; prints one JSON line
// {client, server, feature, got} for each.
import { once } from "node:events";

// Milliseconds for one feature.
const LIMIT = 20_000;

function features({ me, it, prefix, client, seen, version, watch, unwatch }) {
  const call = async (tool, options) => {
    const result = await client.callTool({ name: prefix + tool, arguments: { text: me } }, options);
    const text = result.content[0].text;
    if (result.isError) throw new Error(text);
    return text;
  };
  const note = async () => {
    const listed = (await client.listResources()).resources.map((resource) => resource.uri);
    return listed.find((uri) => uri.includes(it) && uri.endsWith(me)) ?? "";
  };
  const read = async (uri) => (await client.readResource({ uri })).contents[0];
  const question = async (tool) => {
    seen.asked = undefined;
    const text = await call(tool);
    return { asked: seen.asked, text };
  };
  return {
    connect: () => ({ version: version() }),
    "tools/list": async () => {
      const names = (await client.listTools()).tools.map((tool) => tool.name);
      const own = names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
      return { tools: own.sort() };
    },
    "tools/call": async () => ({ text: await call("echo") }),
    resources: async () => {
      const uri = await note();
      const content = await read(uri);
      return { listed: uri !== "", "same uri": content.uri === uri, text: content.text };
    },
    prompts: async () => {
      const name = `${prefix}greet`;
      const listed = (await client.listPrompts()).prompts.some((prompt) => prompt.name === name);
      const { messages } = await client.getPrompt({ name, arguments: { name: me } });
      return { listed, text: messages[0].content.text };
    },
    completion: async () => {
      const ref = { type: "ref/prompt", name: `${prefix}greet` };
      const { completion } = await client.complete({ ref, argument: { name: "name", value: me } });
      return { values: completion.values };
    },
    elicitation: () => question("ask"),
    sampling: () => question("sample"),
    progress: async () => {
      const progress = [];
      const onprogress = (step) => progress.push([step.progress, step.total]);
      return { text: await call("steps", { onprogress }), progress };
    },
    cancel: async () => {
      const stop = new AbortController();
      try {
        await call("hang", { signal: stop.signal, onprogress: () => stop.abort("enough") });
      } catch (error) {
        if (!stop.signal.aborted) throw error;
        return { cancelled: true };
      }
      return { cancelled: false };
    },
    subscribe: async () => {
      const uri = await note();
      const updated = once(seen.updates, uri);
      const watching = await watch(uri);
      await call("touch");
      await updated;
      const { text } = await read(uri);
      await unwatch(uri, watching);
      return { updated: true, text };
    },
  };
}

async function attempt(does) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing within ${LIMIT} ms`)), LIMIT);
  });
  try {
    return await Promise.race([does(), late]);
  } catch (error) {
    return { error: { code: error.code ?? error.name, message: error.message } };
  } finally {
    clearTimeout(timer);
  }
}

// open({me, mode, url}) gives {client, seen: {asked, updates}, version(), watch(uri), unwatch(uri, watching), close()}.
export async function exchange(open) {
  const job = JSON.parse(process.argv[2]);
  const one = async ({ me, mode, it, url, prefix }) => {
    const tell = (feature, got) => console.log(JSON.stringify({ client: me, server: it, feature, got }));
    const opened = await attempt(() => open({ me, mode, url }));
    if (opened.error) return tell("connect", opened);
    const all = features({ me, it, prefix, ...opened });
    for (const feature of job.features) tell(feature, await attempt(async () => all[feature]()));
    return opened.close();
  };
  await Promise.all(job.pairs.map(one));
}
