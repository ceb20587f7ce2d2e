package sweep

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// bucket is an object store's server, as far as a sweep needs one: bucket bkt. TestGateway
// has a real one.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	// conflicts is the number of conditional writes that are told to ask again.
	conflicts int
	// conditions are the keys written on the condition that nothing is there.
	conditions []string
}

func (s *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := strings.CutPrefix(r.URL.Path, "/bkt/")
	if !ok {
		s.refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	text, there := s.objects[key]
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		s.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("continuation-token"))
	case r.Method == http.MethodPut:
		if r.Header.Get("If-None-Match") == "*" {
			s.conditions = append(s.conditions, key)
			if s.conflicts > 0 {
				s.conflicts--
				s.refuse(w, http.StatusConflict, "ConditionalRequestConflict")
				return
			}
			if there {
				s.refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
				return
			}
		}
		body := io.Reader(r.Body)
		if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			body = httputil.NewChunkedReader(body) // each chunk with its signature, as an extension
		}
		text, err := io.ReadAll(body)
		if err != nil {
			s.refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		s.objects[key] = text
		w.Header().Set("ETag", `"1"`)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		s.refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", made, bytes.NewReader(text))
	}
}

var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (s *bucket) refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>refused</Message></Error>") // the test ends otherwise
}

// list answers with two keys at a time.
func (s *bucket) list(w http.ResponseWriter, prefix, after string) {
	type object struct {
		Key          string
		LastModified time.Time
	}
	var out struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []object
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if len(out.Contents) == 2 {
			out.IsTruncated, out.NextContinuationToken = true, out.Contents[1].Key
			break
		}
		out.Contents = append(out.Contents, object{key, made})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(&out) // the test ends otherwise
}

// onObjects is a folder in an object store of the test.
func onObjects(t *testing.T) (Folder, *bucket) {
	t.Helper()
	s := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "here", "AWS_ENDPOINT_URL": server.URL} {
		t.Setenv(name, value)
	}
	f, err := Open("s3://bkt/some/sweep/", "")
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

// TestObjects: a sweep in an object store gives what one in a directory does, a cell that
// fails included, and another process's result stays.
func TestObjects(t *testing.T) {
	here, p := planned(t, small)
	runAll(t, here, 1)
	wantCSV, wantParquet := merged(t, here)

	f, s := onObjects(t)
	if _, err := f.Plan(); err == nil || !strings.Contains(err.Error(), "s3://bkt/some/sweep/ has no sweep.json") {
		t.Errorf("of no plan: %v", err)
	}
	spec, err := parseSpec("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Make(f, spec, nil); err != nil {
		t.Fatal(err)
	}
	if len(s.conditions) > 0 {
		t.Errorf("a plan replaces the one before, and %v were not to", s.conditions)
	}
	var first *Cell
	for first = range f.cells(&p.Plan, 0, 1) {
	}
	good, err := f.get(scenariosDir + first.Text)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.put(scenariosDir+first.Text, []byte("x: 1")); err != nil {
		t.Fatal(err)
	}
	if done := runAll(t, f, 2); done.Failed != 2 || done.Ran != 8 {
		t.Errorf("%+v", done)
	}
	if st, err := f.Status(); err != nil || st.Done != 8 || st.Failed != 2 || st.Array != "0" || len(st.Failures) != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := f.put(scenariosDir+first.Text, good); err != nil {
		t.Fatal(err)
	}
	s.conflicts = 1
	if done := runAll(t, f, 2); done.Failed != 0 || done.Ran != 2 || done.Before != 8 {
		t.Errorf("%+v", done)
	}
	if st, err := f.Status(); err != nil || st.Done != 10 || st.Failed != 0 || st.Array != "" {
		t.Errorf("%+v, %v", st, err)
	}
	if csv, columnar := merged(t, f); !bytes.Equal(csv, wantCSV) || !bytes.Equal(columnar, wantParquet) {
		t.Error("the merged tables differ from those of a directory")
	}
	if ran, differ, err := Verify(t.Context(), f, 1, 1, nil); err != nil || ran != 10 || len(differ) > 0 {
		t.Errorf("%d ran again, %v differ, %v", ran, differ, err)
	}
	result := fileOf(resultsDir, first.Hash)
	if !slices.Contains(s.conditions, "some/sweep/"+result) {
		t.Errorf("%s was not written on a condition, but %v", result, s.conditions)
	}
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

// far is a store that answers when as many results are asked for at once as merging reads
// ahead.
type far struct {
	store
	asked sync.WaitGroup
}

func (s *far) get(name string) ([]byte, error) {
	if strings.HasPrefix(name, resultsDir) {
		s.asked.Done()
		s.asked.Wait()
	}
	return s.store.get(name)
}

// TestMergeAhead: results are asked for before they are needed, and come in order.
func TestMergeAhead(t *testing.T) {
	f, p := planned(t, "scenarios: [quickstart]\nseeds: 16\nparameters: [{key: duration, values: [0.1ms]}]\n")
	if p.Cells != ahead {
		t.Fatalf("%d cells", p.Cells)
	}
	runAll(t, f, 2)
	want, _ := merged(t, f)
	distant := &far{store: f.store}
	distant.asked.Add(ahead)
	if got, _ := merged(t, Folder{f.name, distant}); !bytes.Equal(got, want) {
		t.Error("the table differs")
	}
}

func TestOpen(t *testing.T) {
	f, _ := onObjects(t)
	if has, err := f.has("none"); has || err != nil {
		t.Errorf("%v, %v", has, err)
	}
	if err := f.remove("none"); err != nil {
		t.Error(err)
	}
	if _, err := f.get("none"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "s3://bkt/some/sweep/none: ") {
		t.Error(err)
	}
	other, err := Open("s3://other", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.get("x"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "s3://other/x: ") {
		t.Errorf("of no bucket: %v", err)
	}
	for _, c := range []struct{ name, endpoint, want string }{
		{"s3:///x", "", "expected s3://BUCKET/PREFIX"},
		{"s3://b/x", "localhost:9000", "endpoint localhost:9000: expected http"},
		{"s3://b/x", "http://h/b", "endpoint http://h/b: expected http"},
		{"dir", "http://h", "dir is a directory"},
	} {
		if _, err := Open(c.name, c.endpoint); c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v, expected %s", c.name, c.endpoint, err, c.want)
		}
	}
}
