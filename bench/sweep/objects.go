package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// amazon is the endpoint where none is named.
const amazon = "https://s3.amazonaws.com"

// objects is a store in a bucket of an object store, by S3's API: a file is an object
// whose key is the prefix and the file's name.
type objects struct {
	client         *minio.Client
	bucket, prefix string // the prefix ends with / or is empty
	endpoint       string // as named, or empty
	// patience is the time for which a server may answer nothing: then it counts as
	// dead.
	patience time.Duration
	// waiting, unless nil, is told what a server has not answered for notice. It may be
	// called concurrently.
	waiting func(what string)
	notice  time.Duration
}

// A server has to answer within patience, and to give slowest bytes a second from then on,
// for which each name of a listing counts as bytesOfName. A request is tried tries times.
const (
	patience    = 30 * time.Second
	notice      = 2 * time.Second
	slowest     = 64 << 10
	bytesOfName = 64
	tries       = 3
)

// within carries out a request, and ends it if the server takes too long. The request calls
// got with the bytes that have come.
func (o *objects) within(name string, request func(ctx context.Context, got func(bytes int)) error) error {
	dead := fmt.Errorf("the server does not answer, or no more: waited for %v", o.patience)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	began := time.Now()
	end := time.AfterFunc(o.patience, func() { cancel(dead) })
	defer end.Stop()
	if o.waiting != nil {
		say := time.AfterFunc(o.notice, func() { o.waiting(o.path(name)) })
		defer say.Stop()
	}
	all := 0
	err := request(ctx, func(bytes int) {
		all += bytes
		end.Reset(o.patience + time.Duration(float64(all)/slowest*float64(time.Second)) - time.Since(began))
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return o.failed(name, err)
}

// isObjects reports whether a folder's name is that of an object store.
func isObjects(name string) bool { return strings.HasPrefix(name, "s3://") }

// openObjects reads s3://bucket/prefix. The endpoint is that, or of the variables that
// Amazon's tools read, as are credentials and region; nothing is asked of the server yet.
func openObjects(name, endpoint string) (*objects, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(name, "s3://"), "/")
	if bucket == "" {
		return nil, fmt.Errorf("%s: expected s3://BUCKET/PREFIX", name)
	}
	if prefix = strings.Trim(path.Clean("/"+prefix), "/"); prefix != "" {
		prefix += "/"
	}
	for _, variable := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
		if endpoint == "" {
			endpoint = os.Getenv(variable)
		}
	}
	o := &objects{bucket: bucket, prefix: prefix, endpoint: endpoint, patience: patience, notice: notice}
	if endpoint == "" {
		endpoint = amazon
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("endpoint %s: expected http://HOST[:PORT] or https://HOST[:PORT]", endpoint)
	}
	region := os.Getenv("AWS_REGION")
	if region == "" {
		region = os.Getenv("AWS_DEFAULT_REGION") // without it, the server is asked
	}
	o.client, err = minio.New(u.Host, &minio.Options{
		Secure: u.Scheme == "https", Region: region, MaxRetries: tries,
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return o, nil
}

func (o *objects) path(name string) string { return "s3://" + o.bucket + "/" + o.prefix + name }

// failed names the object of an error, and makes that of one that is not there
// fs.ErrNotExist.
func (o *objects) failed(name string, err error) error {
	if err == nil {
		return nil
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s: %w", o.path(name), err)
}

func (o *objects) get(name string) (text []byte, err error) {
	err = o.within(name, func(ctx context.Context, got func(int)) (err error) {
		for range tries { // a connection may break within an object
			if text, err = o.getOnce(ctx, name, got); !errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
		}
		return err
	})
	return text, err
}

func (o *objects) getOnce(ctx context.Context, name string, got func(int)) ([]byte, error) {
	body, _, _, err := minio.Core{Client: o.client}.GetObject(ctx, o.bucket, o.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it is read only
	return infile.All(counted{body, got}, mostOf(name))
}

// counted tells of the bytes that are read.
type counted struct {
	io.Reader
	got func(int)
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.got(n)
	return n, err
}

func (o *objects) has(name string) (bool, error) {
	err := o.within(name, func(ctx context.Context, _ func(int)) error {
		_, err := o.client.StatObject(ctx, o.bucket, o.prefix+name, minio.StatObjectOptions{})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (o *objects) put(name string, text []byte) error {
	return o.within(name, func(ctx context.Context, got func(int)) error {
		return o.write(ctx, name, text, minio.PutObjectOptions{}, got)
	})
}

// add writes on the condition that nothing is there: what is there stays. Of several
// processes that write at once one may be told to ask again.
func (o *objects) add(name string, text []byte) error {
	var absent minio.PutObjectOptions
	absent.SetMatchETagExcept("*")
	return o.within(name, func(ctx context.Context, got func(int)) error {
		for try := 0; ; try++ {
			err := o.write(ctx, name, text, absent, got)
			switch minio.ToErrorResponse(err).StatusCode {
			case http.StatusPreconditionFailed:
				return nil
			case http.StatusConflict:
				if try < 10 {
					continue
				}
			}
			return err
		}
	})
}

func (o *objects) write(ctx context.Context, name string, text []byte, options minio.PutObjectOptions, got func(int)) error {
	if most := mostOf(name); int64(len(text)) > int64(most) {
		return &infile.TooLarge{Most: most}
	}
	got(len(text)) // to be sent
	_, err := o.client.PutObject(ctx, o.bucket, o.prefix+name, bytes.NewReader(text), int64(len(text)), options)
	return err
}

func (o *objects) remove(name string) error {
	err := o.within(name, func(ctx context.Context, _ func(int)) error {
		return o.client.RemoveObject(ctx, o.bucket, o.prefix+name, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (o *objects) list(dir string, most int) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := o.within(dir, func(ctx context.Context, got func(int)) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop() // ends the listing after an error
		for object := range o.client.ListObjects(ctx, o.bucket, minio.ListObjectsOptions{Prefix: o.prefix + dir, Recursive: true}) {
			name := path.Base(object.Key)
			_, twice := out[name]
			switch {
			case object.Err != nil:
				return object.Err
			case twice:
				return fmt.Errorf("the server lists %s twice: it is no object store that works", object.Key)
			case len(out) == most:
				return tooManyFiles(o.path(dir), most)
			}
			out[name] = object.LastModified
			got(bytesOfName)
		}
		return ctx.Err()
	})
	return out, err
}
