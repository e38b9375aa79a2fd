<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

/** The temporary files of a request. They are removed with it, unless the application has moved them. @internal */
final class Uploads
{
    /** @var list<string> */
    private array $paths = [];
    /** The process that has created the files. Its children must not remove them. */
    private int $pid;

    public function __construct()
    {
        $this->pid = getmypid();
    }

    /**
     * Creates a file, which only this user can read.
     *
     * @return array{string, resource} its path, and a stream to write to
     * @throws \RuntimeException the file cannot be created
     */
    public function create(): array
    {
        $folder = ini_get('upload_tmp_dir') ?: sys_get_temp_dir();
        // tempnam() would use another directory with a notice if this one is not writable.
        $path = @tempnam($folder, 'stoker-upload-');
        $stream = $path === false ? false : @fopen($path, 'wb');
        if ($stream === false) {
            throw new \RuntimeException("cannot create a file for an upload in $folder: make it writable, or set upload_tmp_dir");
        }
        $this->paths[] = $path;

        return [$path, $stream];
    }

    public function remove(): void
    {
        if ($this->pid === getmypid()) {
            foreach ($this->paths as $path) {
                @unlink($path); // The application may have moved it.
            }
            $this->paths = [];
        }
    }

    public function __destruct()
    {
        $this->remove();
    }
}
