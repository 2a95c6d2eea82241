// The page's side of worker.js: calls by name, and begins anew where a program does not end.

export class Python {
  constructor(root) {
    this.address = new URL("assets/worker.js", root);
    this.start();
  }

  start() {
    this.waiting = new Map();
    this.last = 0;
    this.ready = new Promise((resolve, reject) => this.waiting.set(0, { resolve, reject }));
    this.ready.catch(() => {});
    this.worker = new Worker(this.address, { type: "module" });
    this.worker.onmessage = ({ data: { id, result, failure, fatal, file } }) => {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (failure) reject(new Error(failure));
      else resolve(file ? { result, file } : result);
      if (fatal) this.stop(); // the interpreter has failed, and answers no more
    };
    this.worker.onerror = (event) => {
      for (const { reject } of this.waiting.values()) reject(new Error(event.message));
      this.waiting.clear();
    };
  }

  call(name, ...args) {
    this.last += 1;
    const id = this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, call: name, args });
    });
  }

  // Ends whatever runs; what was asked for is never answered.
  stop() {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(new Error("stopped"));
    this.start();
  }
}

// A picture for the page: its rules for dark displays follow the page's scheme, not the system's.
export function followingPage(svg) {
  return svg.replace(
    /@media \(prefers-color-scheme: ?dark\)\{/g,
    '[data-md-color-scheme="slate"]{',
  );
}
