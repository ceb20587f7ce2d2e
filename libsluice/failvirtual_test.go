package libsluice_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An unmodified ib_write_bw over the driver that ConnectX NICs have says in its own words what
// SLUICE_FAIL asks for, with the syndrome that such a card gives, and ends.
func TestChosenFailuresOfPerftestOnMLX5(t *testing.T) {
	perftest, err := exec.LookPath("ib_write_bw")
	if err != nil {
		t.Skipf("perftest is not installed: %v", err)
	}
	dir, _ := build(t)
	script := filepath.Join(dir, "failing.sh")
	// The client is refused until the server listens.
	text := "#!/bin/sh\n" +
		perftest + ` -d mlx5_0 -F -n 100 "$@" >"$0.out" 2>&1 &
for try in $(seq 100); do
	kill -0 $! || { cat "$0.out"; exit 1; }
	` + perftest + ` -d mlx5_0 -F -n 100 "$@" 127.0.0.1 >"$0.client" 2>&1
	grep -q "connect" "$0.client" || break
	sleep 0.1
done
cat "$0.client"
kill $! 2>/dev/null
wait $!
exit 0
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fail, flags, want string }{
		{"completion:RETRY_EXC_ERR@30", "", "Failed status 12: wr_id 0 syndrom 0x81"},
		{"completion:REM_ACCESS_ERR@30", "--use_old_post_send", "Failed status 10: wr_id 0 syndrom 0x88"},
		{"post_send:ENOMEM@30", "", "Couldn't post send"},
		{"post_send:ENOMEM@30", "--use_old_post_send", "Couldn't post send"},
		{"poll_cq:EIO@30", "", "poll CQ failed"},
		{"completion:RETRY_EXC_ERR@101", "", "BW average"}, // there are 100
	} {
		t.Run(c.fail+c.flags, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(l.Addr().String())
			_ = l.Close()
			argv := append([]string{"failing.sh", "-s", "65536", "-Q", "1", "-p", port}, strings.Fields(c.flags)...)
			out := run(t, virtual(t, true, []string{"SLUICE_CC=none", "SLUICE_FAIL=" + c.fail}, argv...))
			if !strings.Contains(out, c.want) {
				t.Errorf("no %q in\n%s", c.want, out)
			}
		})
	}
}
