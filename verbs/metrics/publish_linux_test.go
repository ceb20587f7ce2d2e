package metrics

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Whoever has the group of the directory can ask: the packaged exporter is of no
// other use to the processes of other users. Nobody else can.
func TestTheGroupMayAsk(t *testing.T) {
	dir := t.TempDir()
	stop, err := Publish(prometheus.NewRegistry(), dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock"))
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket: %v, %v, want mode 0660", info.Mode(), err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
