<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;
use Stoker\Http\UploadedFile;

use function strlen;
use function strpos;
use function substr;

/**
 * Parses multipart/form-data (RFC 7578) from a stream, so that an upload is never in memory as a whole.
 *
 * Values of fields are kept in memory, at most `post_max_size` together; files are written to temporary files, each at
 * most `upload_max_filesize`, or they have UPLOAD_ERR_INI_SIZE as in PHP.
 *
 * @internal
 */
final class Multipart
{
    /** Maximum size of the header of a part, in bytes. */
    private const MAX_HEADER = 16384;
    /** Bytes of one read. */
    private const CHUNK = 65536;

    /** @var list<array{string, string}> names and values of the fields */
    public array $fields = [];
    /** @var list<array{string, UploadedFile}> */
    public array $files = [];
    /** Bytes that have been read, and how far they have been parsed. */
    private string $buffer = "\r\n"; // The first boundary needs no line before it.
    private int $at = 0;
    private string $delimiter;
    private int $fieldBytes = 0;

    /**
     * @param resource $stream
     * @param string   $boundary the parameter of the content type
     * @throws BadRequest        the body is malformed, or a limit is exceeded
     * @throws \RuntimeException a temporary file cannot be written
     */
    public function __construct(private $stream, string $boundary, private Uploads $uploads)
    {
        if ($boundary === '' || strlen($boundary) > 70) {
            throw new BadRequest('invalid multipart body: the boundary must have 1 to 70 characters');
        }
        $this->delimiter = "\r\n--$boundary";
        // With PHP's own buffer, a file is read in pieces of 8 KB and copied once more.
        stream_set_read_buffer($stream, 0);
        $this->copy(static fn (string $bytes) => null); // The text before the first part is ignored.
        for ($parts = 0; !$this->isLast(); $parts++) {
            if ($parts >= ($limit = Variables::limit())) {
                throw new BadRequest("invalid multipart body: more than $limit parts");
            }
            $this->part(PartHeader::parse($this->header()));
        }
    }

    private function part(PartHeader $header): void
    {
        if ($header->fileName === null) {
            $value = '';
            $this->copy(function (string $bytes) use (&$value): void {
                $this->fieldBytes += strlen($bytes);
                BodyLimits::checkFormSize($this->fieldBytes);
                $value .= $bytes;
            });
            $this->fields[] = [$header->name, $value];

            return;
        }
        $this->files[] = [$header->name, $this->file($header)];
    }

    private function file(PartHeader $header): UploadedFile
    {
        $limit = BodyLimits::fromIni('upload_max_filesize') ?: PHP_INT_MAX;
        $size = 0;
        [$path, $file] = $this->uploads->create();
        $this->copy(static function (string $bytes) use ($path, $file, $limit, &$size): void {
            $size += strlen($bytes);
            if ($size <= $limit && @fwrite($file, $bytes) !== strlen($bytes)) {
                throw new \RuntimeException("cannot write an upload to $path: the disk may be full");
            }
        });
        fclose($file);
        $error = match (true) {
            $size > $limit => UPLOAD_ERR_INI_SIZE,
            $size === 0 && $header->fileName === '' => UPLOAD_ERR_NO_FILE,
            default => UPLOAD_ERR_OK,
        };
        if ($error !== UPLOAD_ERR_OK) {
            unlink($path);
            [$path, $size] = ['', 0];
        }

        return new UploadedFile($header->fileName, $header->type, $path, $size, $error);
    }

    /** The header of the next part, without the empty line. */
    private function header(): string
    {
        while (($end = strpos($this->buffer, "\r\n\r\n", $this->at)) === false) {
            if (strlen($this->buffer) - $this->at > self::MAX_HEADER || !$this->read()) {
                throw new BadRequest('invalid multipart body: the header of a part does not end within ' . self::MAX_HEADER . ' bytes');
            }
        }
        if ($end - $this->at > self::MAX_HEADER) {
            throw new BadRequest('invalid multipart body: the header of a part exceeds ' . self::MAX_HEADER . ' bytes');
        }
        $header = substr($this->buffer, $this->at, $end - $this->at);
        $this->at = $end + 4;

        return $header;
    }

    /**
     * Passes the bytes before the next delimiter on, and skips the delimiter.
     *
     * @param callable(string): mixed $sink
     */
    private function copy(callable $sink): void
    {
        while (($found = strpos($this->buffer, $this->delimiter, $this->at)) === false) {
            // The last bytes may be the beginning of the delimiter.
            $safe = strlen($this->buffer) - strlen($this->delimiter) + 1 - $this->at;
            if ($safe > 0) {
                $sink(substr($this->buffer, $this->at, $safe));
                $this->at += $safe;
            }
            if (!$this->read()) {
                throw new BadRequest('invalid multipart body: it ends before the last boundary');
            }
        }
        if ($found > $this->at) {
            $sink(substr($this->buffer, $this->at, $found - $this->at));
        }
        $this->at = $found + strlen($this->delimiter);
    }

    /** Whether the delimiter that was skipped ends the body. If not, skips the rest of its line. */
    private function isLast(): bool
    {
        while (strlen($this->buffer) - $this->at < 2 && $this->read());
        if (substr($this->buffer, $this->at, 2) === '--') {
            return true;
        }
        while (($end = strpos($this->buffer, "\r\n", $this->at)) === false) {
            if (strlen($this->buffer) - $this->at > self::MAX_HEADER || !$this->read()) {
                break;
            }
        }
        if ($end === false || trim(substr($this->buffer, $this->at, $end - $this->at), " \t") !== '') {
            throw new BadRequest('invalid multipart body: a boundary is not followed by a line end');
        }
        $this->at = $end + 2;

        return false;
    }

    /** Reads more bytes. False at the end of the body. */
    private function read(): bool
    {
        $bytes = (string) fread($this->stream, self::CHUNK);
        $this->buffer = substr($this->buffer, $this->at) . $bytes;
        $this->at = 0;

        return $bytes !== '';
    }
}
