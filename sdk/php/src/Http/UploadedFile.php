<?php

declare(strict_types=1);

namespace Stoker\Http;

/**
 * A file that a client sent with a form.
 *
 * It is removed after the request, unless it has been moved. PHP's move_uploaded_file() and is_uploaded_file() do not
 * work on it, because PHP did not handle the upload.
 */
final class UploadedFile
{
    /** The file's name on the client's machine, without a path. The client chose it: do not use it as a path. */
    public readonly string $name;

    /**
     * @internal
     * @param string $fullPath name as the client sent it; for the upload of a directory with a path
     * @param string $type     media type that the client claims, '' = none
     * @param string $path     path of the temporary file, '' if there is an error
     * @param int    $size     in bytes
     * @param int    $error    a constant UPLOAD_ERR_… of PHP: UPLOAD_ERR_OK, UPLOAD_ERR_INI_SIZE (the file exceeds
     *                         `upload_max_filesize`) or UPLOAD_ERR_NO_FILE (the field of the form was left empty)
     */
    public function __construct(
        public readonly string $fullPath,
        public readonly string $type,
        public readonly string $path,
        public readonly int $size,
        public readonly int $error,
    ) {
        $this->name = substr($fullPath, strlen($fullPath) - strcspn(strrev($fullPath), '/\\'));
    }

    /** Whether the file has arrived, and has not been moved. */
    public function isValid(): bool
    {
        return $this->error === UPLOAD_ERR_OK && is_file($this->path);
    }

    /**
     * The content of the file.
     *
     * @throws \RuntimeException there is no file
     */
    public function contents(): string
    {
        return $this->isValid() ? (string) file_get_contents($this->path) : throw $this->missing();
    }

    /**
     * Moves the file, and gives it the permissions of a new file.
     *
     * @param string $path path of the file after the move; its directory must exist
     * @throws \RuntimeException there is no file, or it cannot be moved
     */
    public function moveTo(string $path): void
    {
        if (!$this->isValid()) {
            throw $this->missing();
        }
        if (!@rename($this->path, $path)) {
            throw new \RuntimeException("cannot move the upload \"{$this->name}\" to $path: " . (error_get_last()['message'] ?? 'unknown error'));
        }
        @chmod($path, 0666 & ~umask());
    }

    private function missing(): \RuntimeException
    {
        return new \RuntimeException("the upload \"{$this->name}\" has no file: " . match ($this->error) {
            UPLOAD_ERR_INI_SIZE => 'it exceeds upload_max_filesize of PHP\'s configuration',
            UPLOAD_ERR_NO_FILE => 'the field of the form was left empty',
            default => 'it has been moved or removed',
        });
    }
}
