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
)

// amazon is the endpoint where none is named.
const amazon = "https://s3.amazonaws.com"

// objects is a store in a bucket of an object store, by S3's API: a file is an object
// whose key is the prefix and the file's name.
type objects struct {
	client         *minio.Client
	bucket, prefix string // the prefix ends with / or is empty
	endpoint       string // as named, or empty
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
	o := &objects{bucket: bucket, prefix: prefix, endpoint: endpoint}
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
		Secure: u.Scheme == "https", Region: region,
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

func (o *objects) get(name string) ([]byte, error) {
	object, err := o.client.GetObject(context.Background(), o.bucket, o.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, o.failed(name, err)
	}
	defer func() { _ = object.Close() }() // it is read only
	text, err := io.ReadAll(object)
	return text, o.failed(name, err)
}

func (o *objects) has(name string) (bool, error) {
	_, err := o.client.StatObject(context.Background(), o.bucket, o.prefix+name, minio.StatObjectOptions{})
	if err = o.failed(name, err); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (o *objects) put(name string, text []byte) error {
	return o.failed(name, o.write(name, text, minio.PutObjectOptions{}))
}

// add writes on the condition that nothing is there: what is there stays. Of several
// processes that write at once one may be told to ask again.
func (o *objects) add(name string, text []byte) error {
	var absent minio.PutObjectOptions
	absent.SetMatchETagExcept("*")
	for try := 0; ; try++ {
		err := o.write(name, text, absent)
		switch minio.ToErrorResponse(err).StatusCode {
		case http.StatusPreconditionFailed:
			return nil
		case http.StatusConflict:
			if try < 10 {
				continue
			}
		}
		return o.failed(name, err)
	}
}

func (o *objects) write(name string, text []byte, options minio.PutObjectOptions) error {
	_, err := o.client.PutObject(context.Background(), o.bucket, o.prefix+name, bytes.NewReader(text), int64(len(text)), options)
	return err
}

func (o *objects) remove(name string) error {
	err := o.failed(name, o.client.RemoveObject(context.Background(), o.bucket, o.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (o *objects) list(dir string) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	ctx, stop := context.WithCancel(context.Background())
	defer stop() // ends the listing after an error
	for object := range o.client.ListObjects(ctx, o.bucket, minio.ListObjectsOptions{Prefix: o.prefix + dir, Recursive: true}) {
		if object.Err != nil {
			return nil, o.failed(dir, object.Err)
		}
		out[path.Base(object.Key)] = object.LastModified
	}
	return out, nil
}
