package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rxeCapture = "../roce/testdata/rxe.pcap"

// pcap runs sluice pcap and returns its exit status and what it printed.
func pcap(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = run(append([]string{"pcap"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// copyOf writes a changed copy of the fixture and returns its name.
func copyOf(t *testing.T, change func(b []byte) []byte) string {
	t.Helper()
	b, err := os.ReadFile(rxeCapture)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "copy.pcap")
	if err := os.WriteFile(name, change(b), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPcapJSON(t *testing.T) {
	type document struct {
		Version   int      `json:"version"`
		Arguments []string `json:"arguments"`
		Error     string   `json:"error"`
		Capture   struct {
			RoCE      int `json:"roce_packets"`
			Good      int `json:"good_icrcs"`
			Bad       int `json:"bad_icrcs"`
			Faults    []struct{ Frame int }
			Endpoints []struct{} `json:"connections"`
		} `json:"capture"`
	}
	read := func(args ...string) (status int, d document) {
		t.Helper()
		status, out, _ := pcap(append(args, "--json")...)
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return status, d
	}
	status, d := read(rxeCapture)
	if status != exitOK || d.Version != 1 || d.Arguments[0] != "pcap" || d.Capture.RoCE != 69 || d.Capture.Good != 69 || d.Capture.Bad != 0 || d.Error != "" {
		t.Errorf("status %d, %+v", status, d)
	}
	// A flipped bit is found.
	flipped := copyOf(t, func(b []byte) []byte { b[len(b)-2000] ^= 4; return b })
	if status, d = read(flipped); status != exitOK || d.Capture.Good != 68 || d.Capture.Bad != 1 || len(d.Capture.Faults) != 1 {
		t.Errorf("flipped bit: status %d, %+v", status, d)
	}
	// So is the end of the file where none should be.
	cut := copyOf(t, func(b []byte) []byte { return b[:len(b)-2000] })
	if status, d = read(cut); status != exitFailed || d.Capture.RoCE < 30 || !strings.Contains(d.Error, "it ends within frame") {
		t.Errorf("cut: status %d, %+v", status, d)
	}
	if status, d = read(rxeCapture, "--filter-qp", "0x16"); status != exitOK || len(d.Capture.Endpoints) != 1 || d.Capture.RoCE != 69 {
		t.Errorf("one QP: status %d, %+v", status, d)
	}
}

// The whole capture that the fixture is from, where it is.
func TestPcapWholeCapture(t *testing.T) {
	name := os.Getenv("SLUICE_RXE_CAPTURE")
	if name == "" {
		name = filepath.FromSlash("../../shared/data/rxe/basic.pcap.gz")
	}
	if _, err := os.Stat(name); err != nil {
		t.Skipf("the whole capture is not here (%v): set SLUICE_RXE_CAPTURE to its name", err)
	}
	status, out, errs := pcap("--json", name)
	for _, want := range []string{`"roce_packets": 847,`, `"good_icrcs": 847,`, `"bad_icrcs": 0,`} {
		if status != exitOK || !strings.Contains(out, want) {
			t.Errorf("status %d, %s, no %s in %s", status, errs, want, out)
		}
	}
}

func TestPcapOnScreen(t *testing.T) {
	status, out, errs := pcap(rxeCapture, "--filter_qp=22")
	want := `pcap: 76 frames in 34.0064 s, 69 of them RoCEv2
ICRCs: 69 good, 0 bad

from       QP    to         QP    service  packets  payload[B]  messages                 ACK  RTT[us] min/avg/max
10.77.0.3  0x16  10.77.0.2  0x16  RC       18       288         6 SEND                   9    350/1008.83/3662
10.77.0.2  0x16  10.77.0.3  0x16  RC       18       288         6 SEND, 3 WRITE, 3 READ  6    293/875.583/2632
`
	if status != exitOK || errs != "" || out != want {
		t.Errorf("status %d, %s\n%s", status, errs, out)
	}
}

func TestPcapRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no capture"), 0o666); err != nil {
		t.Fatal(err)
	}
	cut := copyOf(t, func(b []byte) []byte { return b[:3000] })
	for _, c := range []struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		{[]string{text}, exitFailed, "", "text: not a packet capture: it begins with 6e6f2063, and is neither pcap nor pcapng"},
		{[]string{text + "-not"}, exitFailed, "", "no such file"},
		{[]string{cut}, exitFailed, "4 frames in 1.18728 s, 2 of them RoCEv2", "copy.pcap: the capture is damaged: it ends within frame"},
		{nil, exitUsage, "", "sluice pcap takes one file, not 0"},
		{[]string{cut, text}, exitUsage, "", "sluice pcap takes one file, not 2"},
		{[]string{cut, "--filter-qp", "0x1000000"}, exitUsage, "", `--filter-qp "0x1000000": a QP number is 0 to 16777215`},
		{[]string{cut, "--filter-qp", "x"}, exitUsage, "", `--filter-qp "x"`},
	} {
		status, out, errs := pcap(c.args...)
		if status != c.status || !strings.Contains(out, c.stdout) || !strings.Contains(errs, c.stderr) || c.stdout == "" && out != "" {
			t.Errorf("%q: status %d\n%s%s", c.args, status, out, errs)
		}
	}
}
