// The search of the site runs in a worker, and a page from disk may start none: a hidden frame runs its script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source !== inside) return;
        event.stopImmediatePropagation();
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
      inside.document.open();
      inside.document.write(
        `<script>postMessage = (data) => parent.postMessage(data, "*"); importScripts = () => {};</script>` +
          `<script src="${url}"></script>`,
      );
      inside.document.close();
      this.ready = new Promise((resolve) => inside.addEventListener("load", resolve));
    }

    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })),
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
