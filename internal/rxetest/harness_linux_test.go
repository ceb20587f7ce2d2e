package rxetest

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// pairTime bounds one pair. On an idle machine most take a second or two; on a
// busy one, under emulation, many times that.
const pairTime = 2 * time.Minute

// whole skips a test of minutes under -short, where TestOneGuest runs some of each.
func whole(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short: this takes minutes; TestOneGuest has some of it")
	}
}

// prepare returns the guest's image and a host side, or skips the test.
func prepare(t *testing.T) (*rxeguest.Image, *rxeguest.Host) {
	t.Helper()
	image, err := rxeguest.Prepare(t.Context(), "", t.Logf)
	skipUnavailable(t, err)
	h, err := image.NewHost(t.Context())
	skipUnavailable(t, err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("host side: %v", err)
		}
	})
	return image, h
}

// skipUnavailable skips the test for the reason that the machine can't run it,
// unless the environment says that it must.
func skipUnavailable(t *testing.T, err error) {
	t.Helper()
	var unavailable *rxeguest.UnavailableError
	if errors.As(err, &unavailable) && os.Getenv("SLUICE_RXE_REQUIRED") == "" {
		t.Skipf("no soft-RoCE guest on this machine: %v", err)
	}
	check(t, err)
}

// boot starts guests, which go when the test ends.
func boot(t *testing.T, image *rxeguest.Image, h *rxeguest.Host, options ...rxeguest.Options) []*rxeguest.Guest {
	t.Helper()
	guests, errs := make([]*rxeguest.Guest, len(options)), make([]error, len(options))
	var wait sync.WaitGroup
	for i, o := range options {
		o.Capture = artifact(t, o.Name+".pcap")
		wait.Go(func() { guests[i], errs[i] = image.Boot(t.Context(), h, o) })
	}
	wait.Wait()
	for i, g := range guests {
		if g == nil {
			continue
		}
		t.Cleanup(func() {
			if name := artifact(t, options[i].Name+".console"); name != "" {
				check(t, os.WriteFile(name, []byte(g.Console()), 0o644))
			}
			if err := g.Close(); err != nil {
				t.Errorf("%s: %v", options[i].Name, err)
			}
		})
	}
	check(t, errors.Join(errs...))
	return guests
}

// artifact returns the name of a file to keep from a test, or "" when nobody
// wants any: SLUICE_RXE_ARTIFACTS names the folder.
func artifact(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SLUICE_RXE_ARTIFACTS")
	if dir == "" {
		return ""
	}
	dir, err := filepath.Abs(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")))
	check(t, err)
	check(t, os.MkdirAll(dir, 0o755))
	return filepath.Join(dir, name)
}

// pairContext returns the context of one pair.
func pairContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pairTime)
	t.Cleanup(cancel)
	return ctx
}

func prefixes(addrs ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, a := range addrs {
		p = append(p, netip.MustParsePrefix(a))
	}
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
