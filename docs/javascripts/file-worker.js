// Search in pages opened from disk. Browsers start no worker from a file:// page, so the theme's search worker is run in a
// hidden frame instead, behind the few methods of a Worker that the theme uses. Over http this file does nothing.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame.contentWindow;
      this.frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.frame.importScripts = () => {
        throw new Error("one language only");
      };
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = () => {
        for (const data of this.waiting) this.deliver(data);
        this.waiting = null;
      };
      frame.contentDocument.body.appendChild(script);
    }
    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.deliver(data);
    }
    deliver(data) {
      this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
