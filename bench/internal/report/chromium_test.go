package report_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a browser may take over one thing before a test gives it
// up: it bounds a hang, not a speed.
const patience = 2 * time.Minute

// chromium is a headless browser with one page, driven by the DevTools protocol
// over a pair of pipes: messages of JSON, each with a zero byte behind it.
type chromium struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	pipe    *os.File // what out reads
	id      int
	session string
	events  []event // that nobody waited for yet
	// All messages of the console, errors of scripts and requests so far.
	complaints, requests []string
}

type event struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startChromium starts a browser with an empty profile, or skips the test where
// there is none.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skipf("there is no chromium, chromium-browser, google-chrome or chrome on the path")
	}
	toBrowser, in, err := os.Pipe()
	check(t, err)
	out, fromBrowser, err := os.Pipe()
	check(t, err)
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4, where the browser looks for them
	cmd.WaitDelay = 10 * time.Second
	check(t, cmd.Start())
	check(t, toBrowser.Close())
	check(t, fromBrowser.Close())
	b := &chromium{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20), pipe: out}
	t.Cleanup(func() {
		// It ends when it is told to, and at the latest without its pipes.
		_ = in.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(in, `{"id":1000000,"method":"Browser.close"}`+"\x00")
		_ = in.Close()
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		_ = out.Close()
	})
	var target struct {
		TargetID  string `json:"targetId"`
		SessionID string `json:"sessionId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call asks for something and waits for the answer.
func (b *chromium) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	check(b.t, err)
	check(b.t, b.in.SetWriteDeadline(time.Now().Add(patience)))
	_, err = b.in.Write(append(text, 0))
	check(b.t, err)
	for {
		e := b.read(method)
		if e.ID != b.id {
			continue
		}
		if e.Error != nil {
			b.t.Fatalf("%s: %s", method, e.Error.Message)
		}
		if result != nil {
			check(b.t, json.Unmarshal(e.Result, result))
		}
		return
	}
}

// read returns the next message, and notes what tells of faults.
func (b *chromium) read(waiting string) event {
	b.t.Helper()
	check(b.t, b.pipe.SetReadDeadline(time.Now().Add(patience)))
	text, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("waiting for %s: %v", waiting, err)
	}
	var e event
	check(b.t, json.Unmarshal(text[:len(text)-1], &e))
	switch e.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		b.complaints = append(b.complaints, string(e.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		check(b.t, json.Unmarshal(e.Params, &p))
		b.requests = append(b.requests, p.Request.URL)
	}
	if e.ID == 0 {
		b.events = append(b.events, e)
	}
	return e
}

// wait returns once an event has come.
func (b *chromium) wait(method string) {
	b.t.Helper()
	for {
		if i := slices.IndexFunc(b.events, func(e event) bool { return e.Method == method }); i >= 0 {
			b.events = nil
			return
		}
		b.read(method)
	}
}

// eval runs a script, which may return a promise, and reads its value.
func (b *chromium) eval(script string, value any) {
	b.t.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s %s", script, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if value != nil {
		if err := json.Unmarshal(r.Result.Value, value); err != nil {
			b.t.Fatalf("%s gives %s: %v", script, r.Result.Value, err)
		}
	}
}

// screen sets the width of the window and the system's colour scheme.
func (b *chromium) screen(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// open loads a file and returns how long that took, from the navigation to the
// end of the load event, by which time the page's script has drawn everything.
func (b *chromium) open(path string) (loadMs float64) {
	b.t.Helper()
	path, err := filepath.Abs(path)
	check(b.t, err)
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.wait("Page.loadEventFired")
	b.eval(`new Promise(done => requestAnimationFrame(() => setTimeout(done)))`, nil)
	b.eval(`performance.getEntriesByType("navigation")[0].loadEventEnd`, &loadMs)
	return loadMs
}

// press types keys, by their names in the DOM.
func (b *chromium) press(keys ...string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
	for _, key := range keys {
		p := map[string]any{"type": "rawKeyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
		switch {
		case key == "Enter":
			p["type"], p["text"] = "keyDown", "\r"
		case len(key) == 1:
			p["type"], p["text"] = "keyDown", key
		}
		b.call("Input.dispatchKeyEvent", p, nil)
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
	}
}

// screenshot returns the page as PNG, height pixels of it; 0 is all of it.
func (b *chromium) screenshot(width, height int) []byte {
	b.t.Helper()
	if height == 0 {
		b.eval(`document.documentElement.scrollHeight`, &height)
	}
	var shot struct {
		Data []byte `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}, &shot)
	return shot.Data
}

// quiet reports what the browser complained of, and requests of anything but
// the file itself.
func (b *chromium) quiet() {
	b.t.Helper()
	for _, c := range b.complaints {
		b.t.Errorf("the browser says: %s", c)
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, "file://") || !strings.HasSuffix(r, ".html") {
			b.t.Errorf("the page asks for %s", r)
		}
	}
	b.complaints, b.requests = nil, nil
}

func (e event) String() string { return fmt.Sprintf("%s %s", e.Method, e.Params) }
