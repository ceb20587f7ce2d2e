package sweep

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// versitygw is a server of S3's API that keeps objects as files.
const versitygw = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// newGateway builds a real server, starts it with the bucket "sweeps" and sets the
// variables by which it is found. It skips the test where the server can't be built.
func newGateway(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	// Its speed is nobody's concern, and optimising it would take longer than the test.
	build := exec.CommandContext(t.Context(), "go", "install", "-gcflags=github.com/...=-N -l", "-ldflags=-s -w", versitygw)
	build.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("%s can't be built: %v\n%s", versitygw, err, out)
	}
	files, meta := filepath.Join(dir, "files"), filepath.Join(dir, "meta")
	for _, d := range []string{meta, filepath.Join(files, "sweeps")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"ROOT_ACCESS_KEY": "sweeper", "ROOT_SECRET_KEY": "of floors",
		"AWS_ACCESS_KEY_ID": "sweeper", "AWS_SECRET_ACCESS_KEY": "of floors", "AWS_SESSION_TOKEN": "",
		"AWS_ENDPOINT_URL": "http://" + address, "AWS_ENDPOINT_URL_S3": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
	} {
		t.Setenv(name, value)
	}
	var said bytes.Buffer
	server := exec.Command(filepath.Join(dir, "versitygw"), "--quiet", "--port", address, "posix", "--sidecar", meta, files)
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait() // it is killed in the end
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have ended
		<-ended
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { //nolint:forbidigo // until a server of real time listens
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close() // it was to see that somebody answers
			return
		}
		select {
		case <-ended:
			t.Fatalf("the server ended:\n%s", &said)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the server does not listen after a minute")
		}
	}
}

// TestGateway runs a sweep over a real server: processes are killed in the middle, two run the same cells
// at once, and a cell fails first. The merged tables have the bytes of a directory's.
func TestGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and building a server takes most of a minute")
	}
	const text = "scenarios: [quickstart]\nseeds: 20\nparameters:\n  - {key: duration, values: [0.1ms, 0.2ms]}\n"
	here, _ := planned(t, text)
	runAll(t, here, 2)
	wantCSV, wantParquet := merged(t, here)

	newGateway(t)
	f, err := Open("s3://sweeps/a/b", "")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := parseSpec("small.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(f, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for wanted := 4; wanted <= 12; wanted += 4 {
		cmd := begin(t, f)
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { //nolint:forbidigo // until a process is so far
			results, err := f.made(resultsDir, &p.Plan)
			if err != nil || time.Now().After(end) {
				t.Fatalf("%d results, expected %d or more; %v", len(results), wanted, err)
			}
			if len(results) >= wanted {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	st, err := f.Status()
	if err != nil || st.Failed > 0 || st.Done+st.Missing != p.Cells {
		t.Fatalf("%+v, %v", st, err)
	}
	t.Logf("%d of %d cells were done after 3 kills", st.Done, p.Cells)

	var first *Cell
	for first = range f.cells(&p.Plan, 0, 1) {
	}
	good, err := f.get(scenariosDir + first.Text)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.remove(fileOf(resultsDir, first.Hash)); err != nil {
		t.Fatal(err)
	}
	if err := f.put(scenariosDir+first.Text, []byte("x: 1")); err != nil {
		t.Fatal(err)
	}
	if done, err := Run(t.Context(), f, Options{Jobs: 1}); err != nil || done.Failed != 1 { // task 0
		t.Fatalf("%+v, %v", done, err)
	}
	if st, err := f.Status(); err != nil || st.Failed != 1 || st.Failures[0].Index != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := f.put(scenariosDir+first.Text, good); err != nil {
		t.Fatal(err)
	}
	one, other := begin(t, f), begin(t, f)
	if err1, err2 := one.Wait(), other.Wait(); err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if st, err := f.Status(); err != nil || st.Done != p.Cells || st.Failed != 0 || st.Array != "" {
		t.Errorf("%+v, %v", st, err)
	}
	if csv, columnar := merged(t, f); !bytes.Equal(csv, wantCSV) || !bytes.Equal(columnar, wantParquet) {
		t.Error("the merged tables differ from those of a directory")
	}
	if ran, differ, err := Verify(t.Context(), f, 0.2, 1, nil); err != nil || ran == 0 || len(differ) > 0 {
		t.Errorf("%d ran again, %v differ, %v", ran, differ, err)
	}
	result := fileOf(resultsDir, first.Hash)
	was, err := f.get(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.add(result, []byte("another's")); err != nil {
		t.Fatal(err)
	}
	if is, err := f.get(result); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the result that was there is replaced by %q, %v", is, err)
	}
}
